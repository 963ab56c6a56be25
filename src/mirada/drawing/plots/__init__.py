"""Plots for papers, through matplotlib."""
