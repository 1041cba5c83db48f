"""What `benchmarks/speed.py` measures: each part is a function that returns rows, and runs in a process of its own."""
