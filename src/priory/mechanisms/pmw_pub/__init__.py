"""PMW^Pub: the recipe and weights over public rows."""
