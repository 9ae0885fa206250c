#!/usr/bin/env python3
"""Bytes that live between forward and backward, beside what PyTorch eager saves.

usage: saved_torch.py DIR [NAME ...] [--stator build/release/bin/stator]

ViT-B/16, BERT-base over 128 words and ResNet-18, whole, in training mode, of the batch of gen_train.py or 1. PyTorch: the storages
that its forward hands to torch.autograd.graph.saved_tensors_hooks, each once, without parameters; attention as the network has it
by default, and spelled out as the export has it. Stator: the values that `stator grad --partition min-cut` saves at budget 1, and
the inputs that are no parameters. DIR/NAME/model.onnx is written where it is not there. Status 1: a ratio to PyTorch's bytes of the
network as it is exported is above 0.8. Needs torch, timm, transformers and onnx."""
import argparse
import json
import os
import subprocess
import sys

import torch

import conf_models_lib as lib
import gen_train

GOAL = 0.8


def vit(attention):
    import timm
    network = lib.seeded_init(timm.create_model("vit_base_patch16_224", pretrained=False), "vit-train")
    for module in network.modules():
        if hasattr(module, "fused_attn"):
            module.fused_attn = attention == "sdpa"
    return network, lib.randn(1, 3, 224, 224, key=("vit",))


def bert(attention):
    from transformers import BertConfig, BertModel
    body = BertModel(BertConfig(attn_implementation=attention, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))
    return lib.seeded_init(gen_train.Sentences(body), "bert-train", emb_std=0.1), lib.randint(0, 30522, (1, 128), ("bert",))


def resnet18(_):
    return gen_train.CASES["resnet18"][0](), lib.randn(1, 3, 224, 224, key=("r18", 1))


CASES = {"vit_b16": vit, "bert_base": bert, "resnet18": resnet18}


def torch_bytes(network, x):
    parameters = {p.untyped_storage().data_ptr() for p in network.parameters()}
    held = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters:
            held[storage.data_ptr()] = (storage.nbytes(), tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = network(x)
    total = sum(size for size, _ in held.values())
    del y
    return total


def stator_bytes(options, model, x):
    done = subprocess.run([options.stator, "grad", model, "--wrt", "params", "--partition", "min-cut", "--budget", "1", "--json"],
                          capture_output=True, text=True, check=True)
    facts = json.loads(done.stdout)
    return sum(value["bytes"] for value in facts["saved"]) + x.nbytes


def measure(options, name):
    folder = os.path.join(options.dir, name)
    model = os.path.join(folder, "model.onnx")
    torch.manual_seed(0)
    network, x = CASES[name]("eager")
    for parameter in network.parameters():
        parameter.requires_grad_(True)
    if not os.path.exists(model):
        os.makedirs(folder, exist_ok=True)
        gen_train.export(network, x, "ids" if name == "bert_base" else "x", model)
    spelled = torch_bytes(network.train(), x)
    default = torch_bytes(CASES[name]("sdpa")[0].requires_grad_(True).train(), x)
    ours = stator_bytes(options, model, x)
    print(f"{name}: {ours / 1e6:.1f} MB; PyTorch {default / 1e6:.1f} MB, attention spelled out {spelled / 1e6:.1f} MB; "
          f"ratios {ours / default:.2f} and {ours / spelled:.2f}", flush=True)
    return ours / spelled <= GOAL


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("dir")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--stator", default="build/release/bin/stator")
    options = parser.parse_args()
    good = [measure(options, name) for name in options.names or CASES]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
