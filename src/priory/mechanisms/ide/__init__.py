"""IDE: public data improved level by level, for groups within groups."""
