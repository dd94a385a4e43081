"""Engine: the oracle of contraction, from a plan of bags to compiled steps; it knows no bases and no models."""
