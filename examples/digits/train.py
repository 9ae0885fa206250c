#!/usr/bin/env python3
"""Trains the digits model and writes everything the demo needs. Not needed to run the demo.

usage: train.py [--validate] [OUTDIR]        (default: the folder of this file)
needs: pip install torch==2.13.0 scikit-learn onnx==1.23.2 pillow     (the CPU build of torch)

In:  the UCI optical handwritten digits that scikit-learn ships: 1,797 images, 8x8, values 0..16.
Out: digits.onnx             input image f32[N,1,8,8], pixel/16; output probabilities f32[N,10]
     test_images.npy         the held-out 30 %, f32[540,1,8,8] (stratified, never trained on)
     test_labels.npy         i64[540]
     test_probabilities.npz  what the model must answer for them, computed in float64
     png/digit-<d>.png       one held-out image of each class, 8x8 gray, round(255 * pixel/16)
     labels.txt              one class name a line
Seeds are fixed; the number of epochs was chosen on a validation part of the training split.
"""
import os
import sys

import numpy as np
import onnx
import torch
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

SEED = 20240229
EPOCHS = 60
NAMES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def make_net():
    def block(c_in, c_out):
        return [nn.Conv2d(c_in, c_out, 3, padding=1, bias=False), nn.BatchNorm2d(c_out), nn.ReLU()]

    return nn.Sequential(*block(1, 24), *block(24, 32), nn.MaxPool2d(2), *block(32, 48),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.3), nn.Linear(48 * 4, 10))


def shifted(x, generator):
    """Each image moved by -1, 0 or 1 pixel along both axes; zeros come in."""
    padded = nn.functional.pad(x, (1, 1, 1, 1))
    out = torch.empty_like(x)
    moves = torch.randint(0, 3, (x.shape[0], 2), generator=generator)
    for i, (dy, dx) in enumerate(moves.tolist()):
        out[i] = padded[i, :, dy:dy + 8, dx:dx + 8]
    return out


def train(x, y, epochs, x_val=None, y_val=None):
    torch.manual_seed(SEED)
    generator = torch.Generator().manual_seed(SEED)
    net = make_net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-3)
    batches = (len(x) + 63) // 64
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 6e-3, total_steps=epochs * batches)
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.05)
    for epoch in range(epochs):
        net.train()
        order = torch.randperm(len(x), generator=generator)
        for part in order.split(64):
            optimizer.zero_grad()
            loss_of(net(shifted(x[part], generator)), y[part]).backward()
            optimizer.step()
            schedule.step()
        if x_val is not None and epoch % 10 == 9:
            print(f"epoch {epoch + 1}: validation {accuracy(net, x_val, y_val):.4f}", flush=True)
    return net.eval()


def accuracy(net, x, y):
    net.eval()
    with torch.no_grad():
        return float((net(x).argmax(1) == y).double().mean())


def export(net, path):
    model = nn.Sequential(net, nn.Softmax(dim=1)).eval()
    torch.onnx.export(model, torch.zeros(2, 1, 8, 8), path, dynamo=False, opset_version=17,
                      input_names=["image"], output_names=["probabilities"],
                      dynamic_axes={"image": {0: "N"}, "probabilities": {0: "N"}})
    proto = onnx.load(path)
    onnx.checker.check_model(proto, full_check=True)
    return model


def main():
    out = next((a for a in sys.argv[1:] if not a.startswith("-")), None) or os.path.dirname(os.path.abspath(__file__))
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    digits = load_digits()
    x = torch.tensor(digits.images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
    y = torch.tensor(digits.target, dtype=torch.int64)
    x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.3, random_state=SEED,
                                                        stratify=y)
    if "--validate" in sys.argv:
        parts = train_test_split(x_train, y_train, test_size=0.2, random_state=1, stratify=y_train)
        train(parts[0], parts[2], EPOCHS, parts[1], parts[3])
        return
    net = train(x_train, y_train, EPOCHS)
    print(f"test: {100 * accuracy(net, x_test, y_test):.2f} % of {len(x_test)}")
    model = export(net, os.path.join(out, "digits.onnx"))
    with torch.no_grad():
        expected = model.double()(x_test.double()).float()
    np.save(os.path.join(out, "test_images.npy"), x_test.numpy())
    np.save(os.path.join(out, "test_labels.npy"), y_test.numpy())
    for name, images, classes in (("train", x_train, y_train), ("test", x_test, y_test)):
        np.savez_compressed(os.path.join(out, name + ".npz"), image=images.numpy(), target=classes.numpy())
    np.savez_compressed(os.path.join(out, "test_probabilities.npz"),
                        probabilities=expected.numpy())
    os.makedirs(os.path.join(out, "png"), exist_ok=True)
    for d in range(10):
        image = x_test[int((y_test == d).nonzero()[0])][0].numpy()
        Image.fromarray(np.round(image * 255).astype(np.uint8)).save(
            os.path.join(out, "png", f"digit-{d}.png"))
    with open(os.path.join(out, "labels.txt"), "w", encoding="utf-8") as f:
        f.write("\n".join(NAMES) + "\n")


if __name__ == "__main__":
    main()
