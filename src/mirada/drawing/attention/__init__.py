"""Weights over words and pictures, as SVG and HTML."""
