"""Models without their weights, for a machine that makes some from seeds: models_pack.py MODELS DIR

MODELS is what tests/conformance/gen_models.py wrote. In DIR each model becomes model.onnx, whose
float initializers of more than 16 KiB lie in an external file weights.bin that is not there;
made.json says for each of them where in the file it begins, how many elements it has, their mean
and standard deviation, and the same of large inputs. bench/device_models.py makes them. Needs onnx.
"""
import json
import os
import sys

import numpy
import onnx
from onnx import numpy_helper

LARGE = 16 << 10


def statistics(array):
    return float(array.mean(dtype=numpy.float64)), float(array.std(dtype=numpy.float64))


def strip_weights(model):
    """The initializers left out, as offset, elements, mean, standard deviation; bytes of the file."""
    made, end = [], 0
    for tensor in model.graph.initializer:
        if tensor.data_type != onnx.TensorProto.FLOAT:
            continue
        array = numpy_helper.to_array(tensor)
        if array.nbytes <= LARGE:
            continue
        made.append([end, array.size, *statistics(array)])
        for field in ("raw_data", "float_data"):
            tensor.ClearField(field)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", "weights.bin"), ("offset", end), ("length", array.nbytes)):
            entry = tensor.external_data.add()
            entry.key, entry.value = key, str(value)
        end += (array.nbytes + 63) // 64 * 64
    return made, end


def pack_inputs(source, target):
    """Copies the small inputs of all data sets; the large ones as name, shape, mean, deviation."""
    made = {}
    for folder in sorted(os.listdir(source)):
        if not folder.startswith("test_data_set_"):
            continue
        os.makedirs(os.path.join(target, folder))
        for name in sorted(os.listdir(os.path.join(source, folder))):
            if not name.startswith("input_"):
                continue
            tensor = onnx.load_tensor(os.path.join(source, folder, name))
            array = numpy_helper.to_array(tensor)
            if array.dtype == numpy.float32 and array.nbytes > LARGE:
                made[folder + "/" + name] = [tensor.name, array.shape, *statistics(array)]
            else:
                onnx.save_tensor(tensor, os.path.join(target, folder, name))
    return made


def pack(source, target):
    model = onnx.load(os.path.join(source, "model.onnx"))
    os.makedirs(target)
    weights, size = strip_weights(model)
    onnx.save(model, os.path.join(target, "model.onnx"))
    with open(os.path.join(source, "case.json"), encoding="utf-8") as file:
        case = json.load(file)
    made = {"atol": case["atol"], "rms": case["ref_rms"], "size": size, "weights": weights,
            "inputs": pack_inputs(source, target)}
    with open(os.path.join(target, "made.json"), "w", encoding="utf-8") as file:
        json.dump(made, file)


def main():
    source, target = sys.argv[1:3]
    for name in sorted(os.listdir(source)):
        if os.path.exists(os.path.join(source, name, "model.onnx")):
            pack(os.path.join(source, name), os.path.join(target, name))


if __name__ == "__main__":
    main()
