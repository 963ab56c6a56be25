"""Numbers that Python and C must agree on. They stand here only: the compiler is told of them."""

ACTIVATIONS = ("relu", "gelu", "gelu-tanh", "silu")  # what C computes; C numbers them in this order
SHORT_LONGEST = 128  # places of short attention at most
SHORT_WIDEST = 128  # numbers in its vectors at most
SHORT_LANES = 16  # their number is a multiple of this

DEFINED = tuple(
    f"-D{name}={value}"
    for name, value in {
        "SHORT_LONGEST": SHORT_LONGEST,
        "SHORT_WIDEST": SHORT_WIDEST,
        "SHORT_LANES": SHORT_LANES,
        "ACTIVATION_COUNT": len(ACTIVATIONS),
        **{name.upper().replace("-", "_"): number for number, name in enumerate(ACTIVATIONS)},
    }.items()
)
