#!/usr/bin/env python3
"""Networks to train, with the losses that PyTorch reaches.

usage: gen_train.py OUTDIR [NAME ...] [--steps N] [--list]

For each case OUTDIR/NAME holds model.onnx, exported for training, train.npz with the rows of all batches, where the network has a teacher
teacher.onnx, and case.json: the options of `stator train` and the loss of each step, by PyTorch in f32, in f32 without oneDNN and in f64, from the same weights, rows and optimizer.
train_cases.py compares.
Needs torch, timm, transformers, onnx and onnxscript. Files of one version of PyTorch repeat; none is committed."""
import argparse
import copy
import json
import os
import time

import numpy as np
import torch
from torch import nn

import conf_models_lib as lib
import gen_models

LR = 1e-4                        # AdamW's rate; its other values are PyTorch's, which are Stator's
TEMPERATURE, TEACHER_WEIGHT = 4.0, 0.75
TEACHER_OPTIONS = {"temperature": TEMPERATURE, "teacher_weight": TEACHER_WEIGHT}


class Language(nn.Module):
    """Scores of the next word for each place, the classes on axis 1 as the loss wants them."""

    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, ids):
        return self.body(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False).logits.transpose(1, 2)


class Sentences(nn.Module):
    """Scores of two classes of a sentence."""

    def __init__(self, body):
        super().__init__()
        self.body, self.head = body, nn.Linear(body.config.hidden_size, 2)

    def forward(self, ids):
        mask = torch.ones_like(ids)
        return self.head(self.body(input_ids=ids, attention_mask=mask).pooler_output)


class Sequences(nn.Module):
    """Scores of the class of a sequence, from the last step of an LSTM of two layers and two directions."""

    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.LSTM(40, 96, 2, batch_first=True, bidirectional=True), nn.Linear(192, 20)

    def forward(self, x):
        return self.head(self.rnn(x)[0][:, -1])


class Student(nn.Module):
    """Scores of 1,000 classes by two convolutions."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
                                  nn.Conv2d(16, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU())
        self.head = nn.Linear(32, 1000)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


def vit(depth=2):
    import timm
    return lib.seeded_init(timm.create_model("vit_base_patch16_224", pretrained=False, depth=depth), "vit-train")


def bert(layers=2):
    from transformers import BertConfig, BertModel
    config = BertConfig(num_hidden_layers=layers, attn_implementation="eager", hidden_dropout_prob=0.0,
                        attention_probs_dropout_prob=0.0)
    return lib.seeded_init(Sentences(BertModel(config)), "bert-train", emb_std=0.1)


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    config = GPT2Config(n_layer=2, vocab_size=8192, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, attn_implementation="eager")
    return lib.seeded_init(Language(GPT2LMHeadModel(config)), "gpt2-train", emb_std=0.05)


def unet():
    return gen_models.calibrate_bn(lib.seeded_init(gen_models.UNet(), "unet"), lib.randn(2, 3, 64, 64, key=("cal",)))


def lstm():
    return lib.seeded_init(Sequences(), "lstm-train")


def student():
    return lib.seeded_init(Student(), "student-train")


def images(classes, *shape):
    """Pictures whose class is a faint pattern in them."""
    def rows(n, key):
        target = lib.randint(0, classes, (n,), (key, "class"))
        patterns = lib.randn(16, *shape, key=(key, "pattern"))
        return lib.randn(n, *shape, key=(key, "noise")) + patterns[target % 16], target
    return rows


def pixels(*shape):
    """Pictures, and for each pixel whether the channels' sum is positive."""
    def rows(n, key):
        x = lib.randn(n, *shape, key=(key, "pixels"))
        return x, (x.sum(1) > 0).long()
    return rows


def sentences(words, length):
    """Words of which most are of the lower or of the upper half of all words."""
    def rows(n, key):
        target = lib.randint(0, 2, (n,), (key, "class"))
        ids = lib.randint(0, words, (n, length), (key, "words"))
        half = (lib.randint(0, 4, (n, length), (key, "half")) > 0).long() * target[:, None]
        return (ids // 2) + half * (words // 2), target
    return rows


def following(words, length):
    """Words each of which follows from the one before, but for one in four."""
    def rows(n, key):
        ids = lib.randint(0, words, (n, length + 1), (key, "words"))
        known = lib.randint(0, 4, (n, length + 1), (key, "known")) > 0
        for at in range(1, length + 1):
            ids[:, at] = torch.where(known[:, at], (ids[:, at - 1] * 5 + 1) % words, ids[:, at])
        return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
    return rows


# name: the network, its rows, rows of a step, the input's name.
CASES = {
    "resnet18": (gen_models.resnet18, images(1000, 3, 224, 224), 8, "x"),
    "vit": (vit, images(1000, 3, 224, 224), 8, "x"),
    "bert": (bert, sentences(30522, 128), 8, "ids"),
    "gpt2": (gpt2, following(8192, 128), 4, "ids"),
    "unet": (unet, pixels(3, 128, 128), 4, "x"),
    "lstm": (lstm, images(20, 50, 40), 32, "x"),
    "distill": (student, images(1000, 3, 64, 64), 8, "x"),
}
# Networks that are not cut, whose steps are compiled by bench/peers.py.
WHOLE = {
    "vit_b16": (lambda: vit(12), images(1000, 3, 224, 224), 1, "x"),
    "bert_base": (lambda: bert(12), sentences(30522, 128), 1, "ids"),
}
TEACHERS = {"distill": gen_models.resnet18}


def export(network, x, name, path):
    """The network in training mode, weights as they are: nothing is folded into another."""
    torch.onnx.export(copy.deepcopy(network).train(), (x,), path, opset_version=17, dynamo=False, input_names=[name], output_names=["scores"],
                      training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)


def export_teacher(teacher, x, path):
    """As it is used, under an input's name and a size of its own."""
    torch.onnx.export(copy.deepcopy(teacher), (x,), path, opset_version=17, dynamo=False, input_names=["picture"], output_names=["said"],
                      dynamic_axes={"picture": {0: "rows"}, "said": {0: "rows"}})


def loss_of(scores, target, said):
    """Cross entropy; with what a teacher said a weighted sum of it and of the divergence from that (Hinton et al., 2015)."""
    hard = nn.functional.cross_entropy(scores, target)
    if said is None:
        return hard
    soft = nn.functional.kl_div(nn.functional.log_softmax(scores / TEMPERATURE, 1), nn.functional.log_softmax(said / TEMPERATURE, 1),
                                reduction="batchmean", log_target=True)
    return TEACHER_WEIGHT * TEMPERATURE ** 2 * soft + (1 - TEACHER_WEIGHT) * hard


def losses(network, teacher, x, target, batch, steps):
    """The loss of each step of AdamW, before its update."""
    network = copy.deepcopy(network).train()
    optimizer = torch.optim.AdamW([p for p in network.parameters() if p.requires_grad], lr=LR)
    told = []
    for step in range(steps):
        part = slice(step * batch, (step + 1) * batch)
        optimizer.zero_grad()
        with torch.no_grad():
            said = teacher(x[part]) if teacher else None
        loss = loss_of(network(x[part]), target[part], said)
        loss.backward()
        optimizer.step()
        told.append(float(loss.detach()))
    return told


def make(name, out, steps):
    build, rows, batch, input_name = CASES[name]
    folder = os.path.join(out, name)
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(0)
    begun, network = time.time(), build()
    for parameter in network.parameters():
        parameter.requires_grad_(True)
    x, target = rows(batch * steps, name)
    export(network, x[:batch], input_name, os.path.join(folder, "model.onnx"))
    teacher = TEACHERS[name]().eval() if name in TEACHERS else None
    if teacher:
        export_teacher(teacher, x[:batch], os.path.join(folder, "teacher.onnx"))
    np.savez(os.path.join(folder, "train.npz"), **{input_name: x.numpy(), "target": target.numpy()})
    single = losses(network, teacher, x, target, batch, steps)
    with torch.backends.mkldnn.flags(enabled=False):
        plain = losses(network, teacher, x, target, batch, steps)
    double = losses(network.double(), teacher.double() if teacher else None, x.double() if x.is_floating_point() else x, target, batch, steps)
    case = {"torch": torch.__version__, "batch": batch, "lr": LR, "steps": steps, "loss": "cross_entropy", "optimizer": "adamw",
            "losses_f32": single, "losses_f32_plain": plain, "losses_f64": double}
    if teacher:
        case |= {"teacher": "teacher.onnx", "options": TEACHER_OPTIONS}
    with open(os.path.join(folder, "case.json"), "w") as file:
        json.dump(case, file, indent=1)
    apart = max(abs(a - b) / abs(b) for a, b in zip(single + plain, double + double))
    print(f"{name}: {steps} steps of {batch}, loss {double[0]:.5f}, then {double[-1]:.5f}, f32 within {apart:.1e} of f64, {time.time() - begun:.0f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("out", nargs="?")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--list", action="store_true", help="names of the cases")
    options = parser.parse_args()
    if options.list or not options.out:
        print("\n".join(CASES))
        return
    for name in options.names or CASES:
        make(name, options.out, options.steps)


if __name__ == "__main__":
    main()
