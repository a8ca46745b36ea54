"""Pictures of attention maps."""

from .figures import heat_map, overlay, spotlight

__all__ = ["heat_map", "overlay", "spotlight"]
