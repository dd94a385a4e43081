"""Bench: speed and memory, beside the peers where there are any."""
