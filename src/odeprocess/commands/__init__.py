"""The commands about tables: they parse, call and print."""
