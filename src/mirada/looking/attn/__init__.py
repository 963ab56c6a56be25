"""The `.attn` file: its format, writing one, reading one."""
