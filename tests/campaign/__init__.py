"""The campaign: kills, mutants of run folders, mutants of data files, hostile text, and kernels against formulas.

`python -m tests.campaign PART --count N` or `--seconds S` goes on where the figures of the part ended (campaign.json), by seed.
"""
