"""Plots, drawn with matplotlib and saved as the file's ending says. Each module of this package draws one thing."""
