"""The models of bench/zoo.py: architectures of timm and transformers and a few of our own, random weights.

    zoo_models.py NAME FORM FOLDER      writes model.onnx, inputs, PyTorch's result and spec.json into FOLDER

FORM: float; qdq (static, by ONNX Runtime's quantizer, a scale a channel); dynamic (matrix products of bytes). The
result beside a quantised model is ONNX Runtime's."""
import json
import os
import sys
import warnings

import peers_cases

warnings.filterwarnings("ignore")
VOCABULARY = 1000


def image(size, n=1):
    import torch
    return (torch.randn(n, 3, size, size),)


def tokens(batch, length):
    import torch
    return torch.randint(0, VOCABULARY, (batch, length))


def vision(name, size=224, n=1):
    def make():
        import timm
        return timm.create_model(name, pretrained=False).eval(), image(size, n)
    return make


def language(model, config, inputs, **settings):
    """A transformers model, by names; `inputs`: name to what makes the tensor."""
    def make():
        import torch
        import transformers

        class Output(torch.nn.Module):
            def __init__(self):
                super().__init__()
                made = getattr(transformers, config)(**settings)
                made._attn_implementation = "sdpa"
                self.model = getattr(transformers, model)(made).eval()

            def forward(self, *tensors):
                return self.model(**dict(zip(inputs, tensors)), return_dict=False)[0]
        return Output().eval(), tuple(f() for f in inputs.values())
    return make


def ids(batch, length):
    return {"input_ids": lambda: tokens(batch, length)}


def masked(batch, length):
    def ones():
        import torch
        return torch.ones(batch, length, dtype=torch.long)
    return {**ids(batch, length), "attention_mask": ones}


def pair(source, target):
    return {**ids(1, source), "decoder_input_ids": lambda: tokens(1, target)}


def floats(name, *shape):
    def normal():
        import torch
        return torch.randn(*shape)
    return {name: normal}


def dcgan():
    import torch
    from torch import nn
    layers, c = [], 100
    for out, stride, pad in ((512, 1, 0), (256, 2, 1), (128, 2, 1), (64, 2, 1)):
        layers += [nn.ConvTranspose2d(c, out, 4, stride, pad, bias=False), nn.BatchNorm2d(out), nn.ReLU()]
        c = out
    return nn.Sequential(*layers, nn.ConvTranspose2d(c, 3, 4, 2, 1), nn.Tanh()).eval(), (torch.randn(4, 100, 1, 1),)


def tcn():
    import torch
    from torch import nn
    layers, c = [], 32
    for k in range(6):
        layers += [nn.Conv1d(c, 64, 5, padding=2 * 2 ** k, dilation=2 ** k), nn.BatchNorm1d(64), nn.ReLU()]
        c = 64
    return nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(64, 10)).eval(), (
        torch.randn(8, 32, 512),)


def video():
    import torch
    from torch import nn
    return nn.Sequential(
        nn.Conv3d(3, 32, 3, padding=1), nn.BatchNorm3d(32), nn.ReLU(), nn.MaxPool3d(2),
        nn.Conv3d(32, 64, 3, padding=1), nn.BatchNorm3d(64), nn.ReLU(), nn.MaxPool3d(2),
        nn.Conv3d(64, 128, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool3d(1), nn.Flatten(),
        nn.Linear(128, 10)).eval(), (torch.randn(1, 3, 16, 64, 64),)


def autoencoder():
    import torch
    from torch import nn
    return nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 128), nn.ReLU(), nn.Linear(128, 16), nn.Linear(16, 128),
        nn.ReLU(), nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 784), nn.Sigmoid()).eval(), (torch.randn(64, 784),)


def super_resolution():
    import torch
    from torch import nn
    return nn.Sequential(
        nn.Conv2d(1, 64, 5, padding=2), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(),
        nn.Conv2d(64, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 9, 3, padding=1),
        nn.PixelShuffle(3)).eval(), (torch.randn(1, 1, 128, 128),)


def models():
    """Name to a function that gives the module and its inputs."""
    wide = dict(hidden_size=512, num_attention_heads=8, vocab_size=VOCABULARY)
    seq2seq = dict(vocab_size=VOCABULARY, use_cache=False)
    whisper = dict(seq2seq, encoder_layers=4, decoder_layers=4, d_model=384, encoder_attention_heads=6,
                   decoder_attention_heads=6, encoder_ffn_dim=1536, decoder_ffn_dim=1536, pad_token_id=0,
                   bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
    bart = dict(seq2seq, encoder_layers=2, decoder_layers=2, d_model=512, encoder_ffn_dim=2048, decoder_ffn_dim=2048,
                encoder_attention_heads=8, decoder_attention_heads=8)
    return {
        "efficientnet_b0": vision("efficientnet_b0"), "convnext_tiny": vision("convnext_tiny"),
        "swin_tiny": vision("swin_tiny_patch4_window7_224"), "regnety_016": vision("regnety_016"),
        "densenet121": vision("densenet121"), "mobilenetv2": vision("mobilenetv2_100"), "vgg11": vision("vgg11"),
        "inception_v3": vision("inception_v3", 299), "resnext50": vision("resnext50_32x4d"),
        "resnet50_b8": vision("resnet50", n=8), "mixer_s32": vision("mixer_s32_224"),
        "deit_tiny": vision("deit_tiny_patch16_224"), "ghostnet": vision("ghostnet_100"),
        "hrnet_w18": vision("hrnet_w18_small"), "mobilevit_s": vision("mobilevit_s", 256),
        "poolformer_s12": vision("poolformer_s12"), "repvgg_a0": vision("repvgg_a0"),
        "edgenext": vision("edgenext_small", 256), "mobilenetv3_small": vision("tf_mobilenetv3_small_075"),
        "dla34": vision("dla34"), "xcit_nano": vision("xcit_nano_12_p16_224"), "res2net50": vision("res2net50_26w_4s"),
        "coat_tiny": vision("coat_tiny"),
        "gpt2": language("GPT2LMHeadModel", "GPT2Config", ids(1, 64), n_layer=4, vocab_size=10000, use_cache=False),
        "gpt2_4x256": language("GPT2LMHeadModel", "GPT2Config", ids(4, 256), n_layer=2, vocab_size=10000,
                               use_cache=False),
        "distilbert": language("DistilBertModel", "DistilBertConfig", masked(2, 64), n_layers=4,
                               vocab_size=VOCABULARY),
        "roberta": language("RobertaModel", "RobertaConfig", masked(2, 64), num_hidden_layers=4,
                            vocab_size=VOCABULARY),
        "albert": language("AlbertModel", "AlbertConfig", ids(1, 64), num_hidden_layers=4, vocab_size=VOCABULARY,
                           hidden_size=768, num_attention_heads=12, intermediate_size=3072),
        "whisper": language("WhisperModel", "WhisperConfig", {**floats("input_features", 1, 80, 3000),
                                                              "decoder_input_ids": lambda: tokens(1, 4)}, **whisper),
        "clip_vision": language("CLIPVisionModel", "CLIPVisionConfig", floats("pixel_values", 1, 3, 224, 224),
                                num_hidden_layers=4),
        "segformer_b0": language("SegformerForSemanticSegmentation", "SegformerConfig",
                                 floats("pixel_values", 1, 3, 256, 256)),
        "wav2vec2": language("Wav2Vec2Model", "Wav2Vec2Config", floats("input_values", 1, 16000),
                             num_hidden_layers=4),
        "bart": language("BartModel", "BartConfig", pair(32, 16), **bart),
        "qwen2": language("Qwen2ForCausalLM", "Qwen2Config", ids(1, 64), intermediate_size=1408, num_hidden_layers=4,
                          num_key_value_heads=2, use_cache=False, **wide),
        "gemma": language("GemmaForCausalLM", "GemmaConfig", ids(1, 32), intermediate_size=2048, num_hidden_layers=3,
                          num_key_value_heads=1, head_dim=64, use_cache=False, **wide),
        "dcgan": dcgan, "tcn": tcn, "video": video, "autoencoder": autoencoder, "super_resolution": super_resolution}


def export(name, folder):
    import torch
    torch.manual_seed(0)
    kept = peers_cases.import_vision()  # noqa: F841
    module, inputs = models()[name]()
    for m in module.modules():
        if isinstance(m, torch.nn.modules.batchnorm._BatchNorm):    # statistics that are not 0 and 1
            m.running_mean.normal_(0, 0.1)
            m.running_var.uniform_(0.7, 1.3)
    names = [f"in{i}" for i in range(len(inputs))]
    with torch.inference_mode():
        want = module(*inputs).numpy()
    torch.onnx.export(module, inputs, os.path.join(folder, "model.onnx"), dynamo=True, input_names=names,
                      output_names=["out"], opset_version=20, external_data=False, verbose=False)
    return dict(zip(names, (t.numpy() for t in inputs))), want


def quantise(form, folder, feed):
    from onnxruntime import InferenceSession
    from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_dynamic, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process
    path = os.path.join(folder, "model.onnx")
    plain = os.path.join(folder, "float.onnx")
    quant_pre_process(path, plain, skip_symbolic_shape=True)
    if form == "dynamic":
        quantize_dynamic(plain, path, weight_type=QuantType.QInt8)
    else:
        class Once(CalibrationDataReader):
            def __init__(self):
                self.left = [feed]

            def get_next(self):
                return self.left.pop() if self.left else None
        quantize_static(plain, path, Once(), per_channel=True, weight_type=QuantType.QInt8,
                        activation_type=QuantType.QUInt8)
    os.remove(plain)
    return InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, feed)[0]


def main():
    name, form, folder = sys.argv[1:]
    feed, want = export(name, folder)
    if form != "float":
        want = quantise(form, folder, feed)
    inputs = []
    for i, (key, value) in enumerate(feed.items()):
        value.tofile(os.path.join(folder, f"in_{i}.bin"))
        inputs.append(dict(name=key, dtype={"float32": "f32", "int64": "i64"}[str(value.dtype)],
                           shape=list(value.shape), file=f"in_{i}.bin"))
    want.tofile(os.path.join(folder, "want_0.bin"))
    spec = dict(name=name, onnx="model.onnx", onnx_inputs=list(feed), inputs=inputs,
                outputs=[dict(dtype="f32", shape=list(want.shape), file="want_0.bin")])
    with open(os.path.join(folder, "spec.json"), "w") as f:
        json.dump(spec, f, indent=1)


if __name__ == "__main__":
    main()
