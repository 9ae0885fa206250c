"""The models of bench/zoo.py: architectures of timm and transformers and a few of our own, random weights.

MODELS maps a name to a Model: how the module is made, its inputs with named axes, and the sizes it is exported with.
bench/zoo_export.py turns one into ONNX files. Nothing is imported before a module is made."""
from dataclasses import dataclass

VOCABULARY = 1000


@dataclass
class Port:
    """An input. sizes: numbers, and names of axes whose numbers stand in Model.at. kind: normal, tokens or ones."""
    name: str
    sizes: tuple
    kind: str = "normal"


@dataclass
class Model:
    """`other`: sizes besides `at` that a call with symbolic axes is tried with, one axis set after the other."""
    make: object
    ports: list
    at: dict
    other: tuple = ()

    def calls(self):
        """The sizes of calls with symbolic axes: batches of 1, 2 and 8, then the other sizes at a batch of 1."""
        batches = [{**self.at, "B": b} for b in (1, 2, 8)] if "B" in self.at else [dict(self.at)]
        return batches + [{**batches[0], **sizes} for sizes in self.other]


def values(port, at):
    """A tensor for a port at the sizes of a call."""
    import torch
    sizes = [at[s] if isinstance(s, str) else s for s in port.sizes]
    if port.kind == "tokens":
        return torch.randint(0, VOCABULARY, sizes)
    return torch.ones(sizes, dtype=torch.long) if port.kind == "ones" else torch.randn(sizes)


# ---- kinds of models ----

def images(size, n=1):
    ports = [Port("in0", ("B", 3, "H", "W"))]
    return ports, dict(B=n, H=size, W=size), (dict(H=size - 32, W=size + 32), dict(H=size * 2 // 3 // 32 * 32, W=size))


def vision(name, size=224, n=1):
    def make():
        import timm
        return timm.create_model(name, pretrained=False).eval()
    return Model(make, *images(size, n))


def language(model, config, ports, at, other=(), attention="sdpa", **settings):
    """A transformers model, by the names of its class and of its configuration; `attention` as transformers names it."""
    names = [p.name for p in ports]

    def make():
        import torch
        import transformers

        class Output(torch.nn.Module):
            def __init__(self):
                super().__init__()
                made = getattr(transformers, config)(**settings)
                made._attn_implementation = attention
                self.model = getattr(transformers, model)(made).eval()

            def forward(self, *tensors):
                return self.model(**dict(zip(names, tensors)), return_dict=False)[0]
        return Output().eval()
    return Model(make, ports, at, other)


def ids(batch, length):
    return [Port("input_ids", ("B", "S"), "tokens")], dict(B=batch, S=length), (dict(S=length * 3 // 4 + 1), dict(S=7))


def masked(batch, length):
    ports, at, other = ids(batch, length)
    return [*ports, Port("attention_mask", ("B", "S"), "ones")], at, other


def pair(source, target):
    ports, at, other = ids(1, source)
    return [*ports, Port("decoder_input_ids", ("B", "T"), "tokens")], dict(at, T=target), (*other, dict(T=target - 3))


def floats(name, sizes, at, other=()):
    return [Port(name, sizes)], at, other


# ---- models of our own ----

def dcgan():
    from torch import nn
    layers, c = [], 100
    for out, stride, pad in ((512, 1, 0), (256, 2, 1), (128, 2, 1), (64, 2, 1)):
        layers += [nn.ConvTranspose2d(c, out, 4, stride, pad, bias=False), nn.BatchNorm2d(out), nn.ReLU()]
        c = out
    return nn.Sequential(*layers, nn.ConvTranspose2d(c, 3, 4, 2, 1), nn.Tanh()).eval()


def tcn():
    from torch import nn
    layers, c = [], 32
    for k in range(6):
        layers += [nn.Conv1d(c, 64, 5, padding=2 * 2 ** k, dilation=2 ** k), nn.BatchNorm1d(64), nn.ReLU()]
        c = 64
    return nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(64, 10)).eval()


def video():
    from torch import nn
    return nn.Sequential(
        nn.Conv3d(3, 32, 3, padding=1), nn.BatchNorm3d(32), nn.ReLU(), nn.MaxPool3d(2),
        nn.Conv3d(32, 64, 3, padding=1), nn.BatchNorm3d(64), nn.ReLU(), nn.MaxPool3d(2),
        nn.Conv3d(64, 128, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool3d(1), nn.Flatten(),
        nn.Linear(128, 10)).eval()


def autoencoder():
    from torch import nn
    return nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 128), nn.ReLU(), nn.Linear(128, 16), nn.Linear(16, 128),
        nn.ReLU(), nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 784), nn.Sigmoid()).eval()


def super_resolution():
    from torch import nn
    return nn.Sequential(
        nn.Conv2d(1, 64, 5, padding=2), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(),
        nn.Conv2d(64, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 9, 3, padding=1), nn.PixelShuffle(3)).eval()


def unet_attention():
    """A U-Net as diffusion models have it: group norms, attention over the pixels of the smallest image."""
    import torch
    from torch import nn
    from torch.nn import functional

    class Block(nn.Module):
        def __init__(self, before, after):
            super().__init__()
            self.n1, self.c1 = nn.GroupNorm(8, before), nn.Conv2d(before, after, 3, padding=1)
            self.n2, self.c2 = nn.GroupNorm(8, after), nn.Conv2d(after, after, 3, padding=1)
            self.skip = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

        def forward(self, x):
            y = self.c1(functional.silu(self.n1(x)))
            return self.skip(x) + self.c2(functional.silu(self.n2(y)))

    class Attention(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.norm, self.heads = nn.GroupNorm(8, width), heads
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x):
            b, c, h, w = x.shape
            t = self.norm(x).flatten(2).transpose(1, 2)
            q, k, v = self.qkv(t).view(b, h * w, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
            y = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, h * w, c)
            return x + self.out(y).transpose(1, 2).view(b, c, h, w)

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.down1, self.down2 = nn.Conv2d(4, 64, 3, padding=1), Block(64, 64), Block(64, 128)
            self.less1, self.less2 = nn.Conv2d(64, 64, 3, 2, 1), nn.Conv2d(128, 128, 3, 2, 1)
            self.middle1, self.attention, self.middle2 = Block(128, 256), Attention(256, 4), Block(256, 128)
            self.up2, self.up1, self.last = Block(256, 64), Block(128, 64), nn.Conv2d(64, 4, 3, padding=1)

        def forward(self, x):
            a = self.down1(self.first(x))
            b = self.down2(self.less1(a))
            c = self.middle2(self.attention(self.middle1(self.less2(b))))
            c = self.up2(torch.cat([functional.interpolate(c, scale_factor=2.0, mode="nearest"), b], 1))
            return self.last(self.up1(torch.cat([functional.interpolate(c, scale_factor=2.0, mode="nearest"), a], 1)))
    return UNet().eval()


def recurrent(kind):
    def make():
        import torch
        from torch import nn

        class Tagger(nn.Module):
            def __init__(self):
                super().__init__()
                self.embed = nn.Embedding(VOCABULARY, 96)
                self.cells = getattr(nn, kind)(96, 128, 2, batch_first=True, bidirectional=True)
                self.out = nn.Linear(256, 20)

            def forward(self, tokens):
                return torch.log_softmax(self.out(self.cells(self.embed(tokens))[0]), -1)
        return Tagger().eval()
    return Model(make, [Port("tokens", ("B", "S"), "tokens")], dict(B=2, S=40), (dict(S=23),))


def pointnet():
    """Neighbours by distance, an MLP on the differences, a maximum: PointNet++ and DGCNN."""
    import torch
    from torch import nn

    class PointNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.edge = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 128), nn.ReLU())
            self.point = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 512), nn.ReLU())
            self.out = nn.Sequential(nn.Linear(512, 128), nn.ReLU(), nn.Linear(128, 10))

        def forward(self, x):
            b, n, c = x.shape
            squares = (x * x).sum(-1)
            distance = squares.unsqueeze(2) + squares.unsqueeze(1) - 2 * torch.matmul(x, x.transpose(1, 2))
            near = torch.topk(distance, 16, dim=-1, largest=False)[1]
            rows = near.reshape(b, n * 16, 1).expand(b, n * 16, c)
            neighbours = torch.gather(x, 1, rows).view(b, n, 16, c)
            centre = x.unsqueeze(2).expand(b, n, 16, c)
            edges = self.edge(torch.cat([neighbours - centre, centre], -1)).amax(2)
            return self.out(self.point(edges).amax(1))
    return PointNet().eval()


def transformer_encoder():
    from torch import nn
    layer = nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).eval()


# ---- the table ----

def vision_models():
    plain = dict(
        efficientnet_b0="efficientnet_b0", convnext_tiny="convnext_tiny", swin_tiny="swin_tiny_patch4_window7_224",
        regnety_016="regnety_016", densenet121="densenet121", mobilenetv2="mobilenetv2_100", vgg11="vgg11",
        resnext50="resnext50_32x4d", mixer_s32="mixer_s32_224", deit_tiny="deit_tiny_patch16_224",
        ghostnet="ghostnet_100", hrnet_w18="hrnet_w18_small", poolformer_s12="poolformer_s12", repvgg_a0="repvgg_a0",
        mobilenetv3_small="tf_mobilenetv3_small_075", dla34="dla34", xcit_nano="xcit_nano_12_p16_224",
        res2net50="res2net50_26w_4s", coat_tiny="coat_tiny", resnet18="resnet18", convnextv2_atto="convnextv2_atto",
        mobilenetv4_small="mobilenetv4_conv_small", levit_128s="levit_128s", pvt_v2_b0="pvt_v2_b0",
        mnasnet_100="mnasnet_100", lcnet_050="lcnet_050", resnest14d="resnest14d", rexnet_100="rexnet_100",
        gmlp_s16="gmlp_s16_224", resmlp_12="resmlp_12_224", twins_small="twins_pcpvt_small", dpn48b="dpn48b",
        skresnet18="skresnet18", selecsls42b="selecsls42b")
    sized = dict(inception_v3=("inception_v3", 299), mobilevit_s=("mobilevit_s", 256), edgenext=("edgenext_small", 256),
                 fastvit_t8=("fastvit_t8", 256), resnet50_b8=("resnet50", 224, 8))
    return {name: vision(*(m if isinstance(m, tuple) else (m,))) for name, m in {**plain, **sized}.items()}


def encoder_models():
    small = dict(num_hidden_layers=4, vocab_size=VOCABULARY)
    narrow = dict(small, hidden_size=256, num_attention_heads=4, intermediate_size=1024)
    pixels = ("B", 3, "H", "W")
    return {
        "distilbert": language("DistilBertModel", "DistilBertConfig", *masked(2, 64), n_layers=4, vocab_size=VOCABULARY),
        "roberta": language("RobertaModel", "RobertaConfig", *masked(2, 64), **small),
        "albert": language("AlbertModel", "AlbertConfig", *ids(1, 64), **small, hidden_size=768, num_attention_heads=12,
                           intermediate_size=3072),
        "electra": language("ElectraModel", "ElectraConfig", *masked(1, 48), **small),
        "deberta_v2": language("DebertaV2Model", "DebertaV2Config", *masked(1, 32), **narrow, relative_attention=True,
                               pos_att_type=["p2c", "c2p"], position_buckets=32, norm_rel_ebd="layer_norm",
                               attention="eager"),
        "squeezebert": language("SqueezeBertModel", "SqueezeBertConfig", *masked(1, 64), **small, attention="eager"),
        "clip_vision": language("CLIPVisionModel", "CLIPVisionConfig", *floats("pixel_values", pixels,
                                dict(B=1, H=224, W=224)), num_hidden_layers=4),
        "segformer_b0": language("SegformerForSemanticSegmentation", "SegformerConfig", *floats("pixel_values", pixels,
                                 dict(B=1, H=256, W=256), (dict(H=192, W=320),))),
        "wav2vec2": language("Wav2Vec2Model", "Wav2Vec2Config", *floats("input_values", ("B", "T"),
                             dict(B=1, T=16000), (dict(T=11000), dict(T=24321))), num_hidden_layers=4)}


def decoder_models():
    wide = dict(hidden_size=512, num_attention_heads=8, vocab_size=VOCABULARY, use_cache=False)
    seq2seq = dict(vocab_size=VOCABULARY, use_cache=False)
    whisper = dict(seq2seq, encoder_layers=4, decoder_layers=4, d_model=384, encoder_attention_heads=6,
                   decoder_attention_heads=6, encoder_ffn_dim=1536, decoder_ffn_dim=1536, pad_token_id=0,
                   bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
    bart = dict(seq2seq, encoder_layers=2, decoder_layers=2, d_model=512, encoder_ffn_dim=2048, decoder_ffn_dim=2048,
                encoder_attention_heads=8, decoder_attention_heads=8)
    grouped = dict(wide, intermediate_size=1408, num_hidden_layers=4, num_key_value_heads=2)
    gpt2 = dict(vocab_size=10000, use_cache=False)
    sound = [Port("input_features", ("B", 80, 3000)), Port("decoder_input_ids", ("B", "S"), "tokens")]
    return {
        "gpt2": language("GPT2LMHeadModel", "GPT2Config", *ids(1, 64), n_layer=4, **gpt2),
        "gpt2_4x256": language("GPT2LMHeadModel", "GPT2Config", *ids(4, 256), n_layer=2, **gpt2),
        "whisper": language("WhisperModel", "WhisperConfig", sound, dict(B=1, S=4), (dict(S=9),), **whisper),
        "bart": language("BartModel", "BartConfig", *pair(32, 16), **bart),
        # torch.export takes the strides of a scaled_dot_product_attention with a bias for others than they are.
        "t5": language("T5Model", "T5Config", *pair(32, 16), attention="eager", **seq2seq, d_model=256, d_ff=1024,
                       num_layers=3, num_heads=4),
        "qwen2": language("Qwen2ForCausalLM", "Qwen2Config", *ids(1, 64), **grouped),
        "llama": language("LlamaForCausalLM", "LlamaConfig", *ids(1, 64), **grouped),
        "mistral": language("MistralForCausalLM", "MistralConfig", *ids(1, 32), **grouped),
        "phi": language("PhiForCausalLM", "PhiConfig", *ids(1, 32), **wide, intermediate_size=2048,
                        num_hidden_layers=4),
        "opt": language("OPTForCausalLM", "OPTConfig", *masked(1, 48), **wide, ffn_dim=2048, num_hidden_layers=4,
                        word_embed_proj_dim=512),
        "bloom": language("BloomForCausalLM", "BloomConfig", *masked(1, 48), vocab_size=VOCABULARY, hidden_size=256,
                          n_layer=4, n_head=8, use_cache=False, attention="eager"),
        "gemma": language("GemmaForCausalLM", "GemmaConfig", *ids(1, 32), intermediate_size=2048, num_hidden_layers=3,
                          hidden_size=512, num_attention_heads=8, vocab_size=VOCABULARY, num_key_value_heads=1,
                          head_dim=64, use_cache=False)}


def own_models():
    small = [Port("in0", ("B", 4, "H", "W"))]
    return {
        "dcgan": Model(dcgan, [Port("in0", ("B", 100, "H", "W"))], dict(B=4, H=1, W=1), (dict(H=2, W=3),)),
        "tcn": Model(tcn, [Port("in0", ("B", 32, "T"))], dict(B=8, T=512), (dict(T=301),)),
        "video": Model(video, [Port("in0", ("B", 3, "T", "H", "W"))], dict(B=1, T=16, H=64, W=64),
                       (dict(T=12, H=48, W=80),)),
        "autoencoder": Model(autoencoder, [Port("in0", ("B", 784))], dict(B=64)),
        "super_resolution": Model(super_resolution, [Port("in0", ("B", 1, "H", "W"))], dict(B=1, H=128, W=128),
                                  (dict(H=96, W=130),)),
        "unet_attention": Model(unet_attention, small, dict(B=1, H=64, W=64), (dict(H=48, W=64), dict(H=96, W=72))),
        "lstm_tagger": recurrent("LSTM"), "gru_tagger": recurrent("GRU"),
        "pointnet": Model(pointnet, [Port("in0", ("B", "N", 3))], dict(B=1, N=200), (dict(N=333),)),
        "transformer_encoder": Model(transformer_encoder, [Port("in0", ("B", "S", 256))], dict(B=2, S=64),
                                     (dict(S=45),))}


MODELS = {**vision_models(), **encoder_models(), **decoder_models(), **own_models()}

# Timed by default: one of each kind, small enough that a row takes seconds.
TIMED = ("resnet18", "efficientnet_b0", "convnext_tiny", "swin_tiny", "densenet121", "mobilenetv2", "regnety_016",
         "mixer_s32", "deit_tiny", "mobilenetv3_small", "inception_v3", "mobilevit_s", "gpt2", "distilbert", "albert",
         "whisper", "segformer_b0", "wav2vec2", "qwen2", "t5", "dcgan", "tcn", "unet_attention", "pointnet")
