"""Plug-ins of engines, by which an engine uses a codec for prompts and completions."""
