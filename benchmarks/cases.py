"""The suite as data: 89 cases of real models."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Shape = tuple[int, ...]
DTYPES = {"h": "float16", "b": "bfloat16", "f": "float32", "d": "float64", "u": "uint8"}
MAX, AVERAGE, LP, PAD = "max_pooling", "average_pooling", "lp_pooling", "padding"
UNPOOL, MVN, NORMALIZE = "max_unpooling", "mean_variance_normalization", "normalize"
FORWARD = {f"{op}_grad": op for op in (MAX, AVERAGE, LP, PAD, MVN)}  # of each gradient
MAX_GRAD, AVERAGE_GRAD, LP_GRAD, PAD_GRAD, MVN_GRAD = GRADIENTS = tuple(FORWARD)
FROM_GRADIENT = (AVERAGE_GRAD, PAD_GRAD)  # whose only array is the incoming gradient


@dataclass(frozen=True)
class Case:
    """A row of the suite. `args` are the operator's own keywords, pooled or padded sizes apart:

    window None is the whole plane; pads of padding are (start, end) of the last dimensions.
    """

    number: int
    what: str
    op: str
    shapes: tuple[Shape, ...]
    dtypes: str  # letters of DTYPES
    layouts: str  # C: channels first, L: channels last in memory
    origin: str
    args: dict[str, Any] = field(default_factory=dict)
    norm: str = ""  # what the normalization is called elsewhere
    scaled: str = ""  # "scale bias", "scale" or nothing
    as_is: bool = False  # the shape is already in memory order
    fixed: tuple[int, ...] = ()  # dimensions that the CPU's size limit must not touch
    step: bool = False  # of a gradient: the forward call precedes it in each turn


def _pool(window: Any, strides: Any = 1, pad: int = 0, **more: Any) -> dict[str, Any]:
    return {"window": window, "strides": strides, "pad": pad, **more}


def _pads(start: Shape, end: Shape | None = None, mode: Any = "constant") -> dict[str, Any]:
    return {"start": start, "end": start if end is None else end, "mode": mode}


_STEM, _CUBE = (32, 64, 112, 112), (2, 32, 128, 128, 128)
_INCEPTION, _DENSE = (32, 192, 35, 35), (64, 256, 56, 56)
_GEM = (32, 512, 30, 40)
_VIDEO_MODES = ("edge", "edge", "edge", "reflection", "reflection")
_GN = {"groups": 32, "activation": "swish"}

POOLING = (
    Case(1, "max 3x3/2", MAX, ((1, *_STEM[1:]), _STEM, (256, *_STEM[1:])), "hf", "CL",
         "ResNet-50 stem", _pool(3, 2, 1)),
    Case(2, "max+int64 3x3/2", MAX, (_STEM,), "hf", "CL",
         "ResNet-50 training", _pool(3, 2, 1, index="int64")),
    Case(2, "max+uint32 3x3/2", MAX, (_STEM,), "hf", "CL",
         "ResNet-50 training", _pool(3, 2, 1, index="uint32")),
    Case(3, "max 2x2/2", MAX, ((32, 64, 224, 224),), "hf", "CL", "VGG-16 block 1", _pool(2, 2)),
    Case(4, "max+int64 2x2/2", MAX, ((16, 64, 256, 256),), "f", "C",
         "SegNet, U-Net unpooling", _pool(2, 2, index="int64")),
    Case(4, "max+uint32 2x2/2", MAX, ((16, 64, 256, 256),), "f", "C",
         "SegNet, U-Net unpooling", _pool(2, 2, index="uint32")),
    Case(5, "max 3x3/2 ceil", MAX, ((64, 64, 55, 55),), "h", "C",
         "AlexNet, SqueezeNet", _pool(3, 2, ceil=True)),
    Case(6, "max 3x3/2", MAX, (_INCEPTION,), "h", "C", "Inception-v3 reduction", _pool(3, 2)),
    Case(7, "max 5x5/1", MAX, ((8, 256, 20, 20),), "h", "CL", "YOLO SPPF", _pool(5, 1, 2)),
    Case(8, "max 3x3/1 dilated", MAX, ((8, 64, 128, 128),), "f", "C",
         "dilated maximum", _pool(3, 1, 2, dilations=2)),
    Case(9, "average 3x3/1", AVERAGE, (_INCEPTION, (32, 768, 17, 17)), "hf", "C",
         "Inception-v3 branches", _pool(3, 1, 1)),
    Case(10, "average 2x2/2", AVERAGE, (_DENSE,), "h", "CL",
         "DenseNet transition, ResNet-D", _pool(2, 2)),
    Case(11, "average grad 2x2/2", AVERAGE_GRAD, (_DENSE,), "f", "CL",
         "DenseNet training", _pool(2, 2)),
    Case(12, "average grad 3x3/1", AVERAGE_GRAD, (_INCEPTION,), "f", "C",
         "Inception training", _pool(3, 1, 1, include_padding=True)),
    Case(13, "max grad 3x3/2", MAX_GRAD, (_STEM,), "hf", "C", "ResNet training", _pool(3, 2, 1)),
    Case(14, "average global", AVERAGE, ((256, 2048, 7, 7),), "h", "CL",
         "ResNet head", _pool(None)),
    Case(15, "average global", AVERAGE, ((64, 96, 112, 112),), "h", "CL",
         "squeeze-excitation, EfficientNet", _pool(None)),
    Case(16, "L2 global", LP, (_GEM,), "f", "C", "GeM retrieval", _pool(None, p=2)),
    Case(16, "L2 3x3/2", LP, (_GEM,), "f", "C", "anti-aliased pooling", _pool(3, 2, p=2)),
    Case(17, "max 1x2x2", MAX, ((8, 64, 16, 112, 112),), "h", "C",
         "C3D pool1", _pool((1, 2, 2), (1, 2, 2))),
    Case(18, "max 2x2x2", MAX, (_CUBE,), "hf", "CL", "3-D U-Net, nnU-Net", _pool(2, 2)),
    Case(19, "max 3x3x3/2", MAX, ((2, 64, 32, 112, 112),), "h", "C",
         "MedicalNet stem", _pool(3, 2, 1)),
    Case(20, "average 5/4", AVERAGE, ((2, 256, 32000),), "h", "C",
         "audio down-sampler", _pool(5, 4, 2)),
    Case(21, "max over length", MAX, ((64, 256, 1024),), "h", "C", "TextCNN", _pool(None)),
    Case(88, "average 3x3/2", AVERAGE, (_INCEPTION, _DENSE, (64, 256, 14, 14)), "hf", "CL",
         "Inception-v3, ShuffleNet, ResNet-D", _pool(3, 2, 1)),
    Case(48, "max 2x2/2 images", MAX, ((16, 1024, 1024, 3),), "u", "C",
         "image pyramids", _pool(2, 2, axes=(1, 2)), as_is=True),
)  # fmt: skip

PADDING = (
    Case(22, "reflect 3", PAD, ((8, 3, 256, 256),), "fh", "C",
         "CycleGAN generator", _pads((3, 3), mode="reflection")),
    Case(22, "reflect 1", PAD, ((8, 256, 64, 64),), "fh", "C",
         "CycleGAN generator", _pads((1, 1), mode="reflection")),
    Case(23, "reflect 40", PAD, ((1, 3, 1080, 1920),), "h", "CL",
         "fast style transfer", _pads((40, 40), mode="reflection")),
    Case(24, "constant (0,1,0,1)", PAD, ((4, 512, 256, 256),), "h", "CL",
         "SD VAE encoder", _pads((0, 0), (1, 1))),
    Case(25, "edge, time 2", PAD, ((1, 128, 17, 480, 848),), "b", "C",
         "causal video VAE", _pads((2, 1, 1), (0, 1, 1), "edge")),
    Case(26, "constant to 9 windows", PAD, ((64, 56, 56, 96),), "h", "L",
         "Swin window padding", _pads((0, 0, 0), (7, 7, 0)), as_is=True),
    Case(27, "reflect 200", PAD, ((16, 480_000),), "f", "C",
         "Whisper STFT", _pads((200,), mode="reflection")),
    Case(28, "reflect 1024", PAD, ((64, 220_500),), "f", "C",
         "librosa STFT 2048", _pads((1024,), mode="reflection")),
    Case(29, "edge (3,5)", PAD, ((8, 512, 8192),), "h", "C",
         "HiFi-GAN, BigVGAN", _pads((3,), (5,), "edge")),
    Case(30, "symmetric (2,4,4)", PAD, ((2, 1, 155, 240, 240),), "f", "C",
         "medical volumes", _pads((2, 4, 4), mode="symmetric")),
    Case(31, "constant 1", PAD, ((32, 3, 1024, 1024),), "u", "L", "image letterbox", _pads((1, 1))),
    Case(32, "constant 6-D", PAD, ((8, 4, 16, 16, 32, 32),), "h", "C",
         "six dimensions", _pads((0, 1, 0, 2, 1, 3), (1, 0, 2, 0, 0, 3))),
    Case(33, "reflect, folding", PAD, ((64, 1000),), "f", "C",
         "period folding", _pads((3500,), mode="reflection")),
    Case(47, "reflect space, edge time", PAD, ((1, 128, 18, 256, 256),), "b", "L",
         "causal video VAE", _pads((2, 1, 1), (0, 1, 1), _VIDEO_MODES), fixed=(2,)),
    Case(49, "reflect 3 grad", PAD_GRAD, ((8, 3, 256, 256),), "fh", "C",
         "CycleGAN training", _pads((3, 3), mode="reflection")),
    Case(49, "reflect 1 grad", PAD_GRAD, ((8, 256, 64, 64),), "fh", "CL",
         "CycleGAN training", _pads((1, 1), mode="reflection")),
    Case(50, "edge 1 grad", PAD_GRAD, ((2, 32, 48, 96, 96),), "fh", "CL",
         "medical volumes, training", _pads((1, 1, 1), mode="edge")),
    Case(51, "edge (3,5) grad", PAD_GRAD, ((8, 512, 8192),), "fh", "C",
         "HiFi-GAN, BigVGAN training", _pads((3,), (5,), "edge")),
)  # fmt: skip

NORMALIZATION = (
    Case(34, "LayerNorm", MVN,
         tuple((8192, n) for n in (768, 1024, 2048, 4096, 8192, 12288, 16384)), "hbf", "C",
         "BERT to GPT-3", {"axes": (1,)}, "layer", "scale bias"),
    Case(35, "LayerNorm", MVN,
         ((32, 56, 56, 96), (32, 28, 28, 192), (32, 14, 14, 384), (32, 7, 7, 768)), "h", "L",
         "ConvNeXt", {"axes": (3,)}, "layer", "scale bias", as_is=True),
    Case(36, "LayerNorm, odd", MVN, tuple((4096, n) for n in (2040, 2041, 3001)), "hf", "C",
         "alignment cliff", {"axes": (1,)}, "layer", "scale bias"),
    Case(37, "LayerNorm, wide", MVN,
         tuple((n, k) for n in (16, 512, 4096) for k in (65536, 131072, 262144)), "hf", "C",
         "wide rows", {"axes": (1,)}, "layer", "scale bias"),
    Case(38, "LayerNorm, decode", MVN, ((1, 4096), (8, 8192)), "b", "C",
         "decoding", {"axes": (1,)}, "layer", "scale bias"),
    Case(89, "LayerNorm, short", MVN, ((100_000, 16), (100_000, 32), (100_352, 96)), "hf", "C",
         "windows of Swin, points and sets", {"axes": (1,)}, "layer", "scale bias"),
    Case(39, "GroupNorm+SiLU", MVN,
         tuple((2, c, n, n) for c, n in
               ((320, 64), (640, 32), (1280, 16), (1280, 8), (960, 64), (2560, 16))), "h", "CL",
         "SD 1.5 UNet", _GN, "group", "scale bias"),
    Case(40, "GroupNorm+SiLU", MVN,
         tuple((1, c, n, n) for c, n in
               ((512, 64), (512, 128), (512, 256), (256, 512), (128, 512), (128, 1024))), "h", "CL",
         "SD, SDXL VAE decoder", _GN, "group", "scale bias"),
    Case(41, "GroupNorm+SiLU", MVN, ((1, 128, 20, 256, 256), (1, 512, 16, 90, 160)), "b", "CL",
         "video VAE", _GN, "group", "scale bias"),
    Case(42, "InstanceNorm+ReLU", MVN, ((8, 32, 256, 256), (1, 128, 540, 960), _CUBE), "hf", "CL",
         "style transfer, nnU-Net", {"activation": "relu"}, "instance", "scale bias"),
    Case(43, "BatchNorm", MVN, ((256, 64, 112, 112), (4, 128, 1024, 1024)), "h", "CL",
         "ResNet training", {}, "batch", "scale bias"),
    Case(43, "BatchNorm", MVN, ((65536, 512),), "h", "C", "MLP training", {}, "batch",
         "scale bias"),
    Case(44, "axes {0,2,4}", MVN, ((8, 12, 64, 48, 20),), "f", "C",
         "interleaved axes", {"axes": (0, 2, 4)}, "axes"),
    Case(45, "RMSNorm+SiLU, channels", MVN, ((1, 96, 4, 480, 832), (1, 256, 4, 384, 576)), "bf",
         "CL", "Wan, Qwen-Image video VAE", {"axes": (1,), "activation": "swish"}, "rms", "scale",
         fixed=(1,)),
    Case(46, "RMSNorm, heads", MVN, ((1, 27030, 24, 128),), "b", "C",
         "QK norm of video transformers", {"axes": (3,)}, "rms", "scale"),
)  # fmt: skip

_TOKENS = tuple((8192, n) for n in (768, 4096, 8192))
_ROWS = {"axes": (1,)}
_UNET, _DECODER = (2, 320, 64, 64), (1, 512, 128, 128)  # of SD 1.5
_PATCH = (2, 32, 96, 96, 96)  # of nnU-Net
_LEAKY = {"activation": ("leaky_relu", {"alpha": 0.01})}
_WAN = {"axes": (1,), "activation": "swish"}
_SHUFFLE, _EXPANDED = (64, 240, 28, 28), (32, 96, 112, 112)
_STAGE = (16, 64, 256, 256)
_DEEP = ((64, 1024, 14, 14), (64, 2048, 7, 7))  # of ResNet-50

# A "+ grad" is a step of training: the forward call, and after it its gradient.
NORMALIZATION_GRAD = (
    Case(52, "LayerNorm grad", MVN_GRAD, _TOKENS, "fb", "C",
         "BERT to GPT-3 training", _ROWS, "layer", "scale bias"),
    Case(53, "LayerNorm + grad", MVN_GRAD, (_TOKENS[1],), "fb", "C",
         "BERT to GPT-3 training", _ROWS, "layer", "scale bias", step=True),
    Case(54, "LayerNorm grad, plain", MVN_GRAD, ((4096, 1152),), "fb", "C",
         "DiT training, no parameters", _ROWS, "layer"),
    Case(55, "LayerNorm grad", MVN_GRAD, ((32, 56, 56, 96),), "h", "L",
         "ConvNeXt training", {"axes": (3,)}, "layer", "scale bias", as_is=True),
    Case(56, "LayerNorm+GELU grad", MVN_GRAD, ((8, 16000, 512),), "fh", "C",
         "wav2vec 2.0 training", {"axes": (2,), "activation": "gelu"}, "layer", "scale bias"),
    Case(57, "LayerNorm+GELU + grad", MVN_GRAD, ((8, 16000, 512),), "fh", "C",
         "wav2vec 2.0 training", {"axes": (2,), "activation": "gelu"}, "layer", "scale bias",
         step=True),
    Case(58, "RMSNorm grad", MVN_GRAD, _TOKENS, "fb", "C",
         "T5, Llama training", _ROWS, "rms", "scale"),
    Case(59, "RMSNorm + grad", MVN_GRAD, (_TOKENS[1],), "fb", "C",
         "T5, Llama training", _ROWS, "rms", "scale", step=True),
    Case(60, "RMSNorm+SiLU grad", MVN_GRAD, ((1, 96, 4, 480, 832),), "b", "CL",
         "Wan video VAE training", _WAN, "rms", "scale", fixed=(1,)),
    Case(61, "GroupNorm+SiLU grad", MVN_GRAD, (_UNET, _DECODER, (2, 1280, 8, 8)), "hf", "CL",
         "SD UNet, VAE training", _GN, "group", "scale bias"),
    Case(62, "GroupNorm+SiLU + grad", MVN_GRAD, (_UNET, _DECODER), "h", "CL",
         "SD UNet, VAE training", _GN, "group", "scale bias", step=True),
    Case(63, "GroupNorm grad", MVN_GRAD, (_UNET, (2, 1280, 16, 16)), "h", "CL",
         "SD attention training", {"groups": 32}, "group", "scale bias"),
    Case(64, "BatchNorm grad", MVN_GRAD, (_STEM, _PATCH, *_DEEP), "fh", "CL",
         "ResNet, 3-D U-Net training", {}, "batch", "scale bias"),
    Case(65, "BatchNorm + grad", MVN_GRAD, (_STEM,), "fh", "CL",
         "ResNet training", {}, "batch", "scale bias", step=True),
    Case(66, "BatchNorm+SiLU grad", MVN_GRAD, (_EXPANDED,), "fh", "C",
         "EfficientNet training", {"activation": "swish"}, "batch", "scale bias"),
    Case(67, "InstanceNorm grad, plain", MVN_GRAD, ((1, 256, 64, 64), (8, 64, 256, 256)), "f", "C",
         "CycleGAN training, no parameters", {}, "instance"),
    Case(68, "InstanceNorm+LReLU grad", MVN_GRAD, (_PATCH,), "fh", "CL",
         "nnU-Net training", _LEAKY, "instance", "scale bias"),
    Case(69, "InstanceNorm+LReLU + grad", MVN_GRAD, (_PATCH,), "fh", "C",
         "nnU-Net training", _LEAKY, "instance", "scale bias", step=True),
)  # fmt: skip

POOLING_GRAD = (
    Case(70, "max grad 3x3/2", MAX_GRAD, (_STEM,), "hf", "L", "ResNet training", _pool(3, 2, 1)),
    Case(71, "max 3x3/2 + grad", MAX_GRAD, (_STEM,), "hf", "CL", "ResNet training",
         _pool(3, 2, 1), step=True),
    Case(72, "max grad 2x2/2", MAX_GRAD, ((32, 64, 224, 224),), "hf", "CL",
         "VGG-16 training", _pool(2, 2)),
    Case(73, "max 2x2/2 + grad", MAX_GRAD, ((32, 64, 224, 224),), "hf", "C",
         "VGG-16 training", _pool(2, 2), step=True),
    Case(74, "max grad 2x2x2", MAX_GRAD, (_PATCH,), "hf", "CL", "3-D U-Net training", _pool(2, 2)),
    Case(75, "average grad 3x3/2", AVERAGE_GRAD, (_SHUFFLE,), "hf", "CL",
         "ShuffleNet training", _pool(3, 2, 1, include_padding=True)),
    Case(76, "average 3x3/2 + grad", AVERAGE_GRAD, (_SHUFFLE,), "hf", "C",
         "ShuffleNet training", _pool(3, 2, 1, include_padding=True), step=True),
    Case(77, "average grad 2x2/2", AVERAGE_GRAD, (_DENSE,), "h", "CL",
         "DenseNet training", _pool(2, 2)),
    Case(78, "average 2x2/2 + grad", AVERAGE_GRAD, (_DENSE,), "hf", "C",
         "DenseNet training", _pool(2, 2), step=True),
    Case(79, "L2 grad global", LP_GRAD, (_GEM,), "fh", "C", "GeM training", _pool(None, p=2)),
    Case(80, "L2 global + grad", LP_GRAD, (_GEM,), "fh", "C", "GeM training",
         _pool(None, p=2), step=True),
    Case(81, "L2 grad 3x3/2", LP_GRAD, (_GEM,), "fh", "C",
         "anti-aliased pooling, training", _pool(3, 2, p=2)),
    Case(82, "unpool+int64 2x2/2", UNPOOL, (_STAGE,), "fh", "CL",
         "SegNet decoder", _pool(2, 2, positions="int64")),
    Case(82, "unpool+uint32 2x2/2", UNPOOL, (_STAGE,), "fh", "CL",
         "SegNet decoder", _pool(2, 2, positions="uint32")),
)  # fmt: skip

PADDING_GRAD = (
    Case(83, "reflect 1 + grad", PAD_GRAD, ((8, 256, 64, 64),), "fh", "C",
         "CycleGAN training", _pads((1, 1), mode="reflection"), step=True),
    Case(84, "edge 1 + grad", PAD_GRAD, ((2, 32, 48, 96, 96),), "fh", "C",
         "medical volumes, training", _pads((1, 1, 1), mode="edge"), step=True),
    Case(85, "reflect 3 grad, volumes", PAD_GRAD, ((2, 16, 64, 64, 64),), "fh", "C",
         "volume translation, training", _pads((3, 3, 3), mode="reflection")),
)  # fmt: skip

# Normalization with stored statistics.
INFERENCE = (
    Case(86, "BatchNorm, stored", NORMALIZE,
         (_STEM, _DENSE, *_DEEP), "hf", "CL",
         "ResNet-50 inference", {}, "batch", "scale bias"),
    Case(87, "BatchNorm+ReLU, stored", NORMALIZE, (_DENSE, (64, 512, 7, 7)), "hf", "CL",
         "ResNet-50 inference", {"activation": "relu"}, "batch", "scale bias"),
    Case(87, "BatchNorm+SiLU, stored", NORMALIZE, (_EXPANDED,), "hf", "CL",
         "EfficientNet inference", {"activation": "swish"}, "batch", "scale bias"),
)  # fmt: skip

BACKWARD = (*NORMALIZATION_GRAD, *POOLING_GRAD, *PADDING_GRAD)
CASES = tuple(
    sorted((*POOLING, *PADDING, *NORMALIZATION, *BACKWARD, *INFERENCE), key=lambda c: c.number)
)
