"""What is true of the world, as data files and small parsers: cards, engines, models, failures."""
