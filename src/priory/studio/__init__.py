"""Studio: the local page, for the whole job from a table to answers, on the user's own machine."""
