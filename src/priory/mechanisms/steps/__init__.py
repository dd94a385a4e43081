"""Steps: what several recipes do alike."""
