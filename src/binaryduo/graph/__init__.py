"""A model as a graph: traced, made canonical, analysed; what every transformation stands on."""
