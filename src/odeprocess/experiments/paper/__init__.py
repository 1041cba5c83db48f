"""The paper's experiments: protocols as data (`paper.toml`), a runner that trains, and a report that only reads."""
