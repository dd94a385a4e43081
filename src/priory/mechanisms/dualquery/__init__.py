"""DualQuery: the recipe, its game, and the search for records."""
