"""The model: configuration, transformer, initialisation, weights on disk."""

from .build import build
from .cache import KVCache
from .config import Family, LoraConfig, ModelConfig
from .derive import derive, describe
from .transformer import Role, Transformer, document_mask, role_of, softcapped
from .weights import load_config, load_weights, save_weights

__all__ = [
    "Family",
    "KVCache",
    "LoraConfig",
    "ModelConfig",
    "Role",
    "Transformer",
    "build",
    "derive",
    "describe",
    "document_mask",
    "load_config",
    "load_weights",
    "role_of",
    "save_weights",
    "softcapped",
]
