"""The measurements of `benchmarks/speed.py`: each is a function that returns rows and runs in a process of its own."""
