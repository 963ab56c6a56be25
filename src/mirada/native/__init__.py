"""Compiled C, where it can be had."""
