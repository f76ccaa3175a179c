"""Couple, decouple, cost: a model in, another model or a table out."""
