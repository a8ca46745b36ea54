"""A page as a screen reader has it: the roles and names of Chromium's accessibility tree."""

from typing import NamedTuple

SILENT = {
    "none",
    "generic",
    "InlineTextBox",
    "StaticText",
    "LineBreak",
    "MenuListPopup",
}  # a popup has its box's name
NAMED = {"button", "link", "checkbox", "combobox", "slider", "spinbutton", "textbox", "searchbox"}
NAMED |= {"image", "application", "navigation", "table", "dialog"}


class Part(NamedTuple):
    """A node that is read out, and how deep it is in the tree."""

    depth: int
    role: str
    name: str
    focusable: bool


def accessible_tree(page) -> list[Part]:
    """What is read out, in its order."""
    link = page.context.new_cdp_session(page)
    link.send("Accessibility.enable")
    nodes = link.send("Accessibility.getFullAXTree")["nodes"]
    link.detach()
    by_id, found = {node["nodeId"]: node for node in nodes}, []

    def walk(node, depth):
        role, name = (node.get(what, {}).get("value", "") for what in ("role", "name"))
        spoken = not node["ignored"] and role not in SILENT
        if spoken:
            can = any(one["name"] == "focusable" and one["value"].get("value") for one in node.get("properties", []))
            found.append(Part(depth, role, name.strip(), can))
        for child in node.get("childIds", []):
            if child in by_id:
                walk(by_id[child], depth + spoken)

    for node in nodes:
        if "parentId" not in node:
            walk(node, 0)
    return found


def read_out(page) -> str:
    """The tree as text: a line a node."""
    return "\n".join(f"{'  ' * part.depth}{part.role} {part.name}" for part in accessible_tree(page))


def without_a_name(page) -> list[Part]:
    """Controls, pictures and tables that a screen reader can only call by their role."""
    return [part for part in accessible_tree(page) if not part.name and (part.focusable or part.role in NAMED)]


def called_alike(page) -> list[str]:
    """Names that two buttons share."""
    names = [part.name for part in accessible_tree(page) if part.role == "button"]
    return sorted({name for name in names if names.count(name) > 1})
