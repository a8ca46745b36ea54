"""regard.register: names of attention for transformers, which is imported when a name is registered."""


def register(name: str) -> str:
    """Make `name` an attn_implementation of transformers, and return it.

        model.set_attn_implementation(regard.register("regard:top_k=16,window=256"))

    The names of `regard.integrations.transformers.PRESETS` are registered by importing that module.
    """
    from .transformers import register as register_there

    return register_there(name)
