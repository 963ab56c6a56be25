"""The models of the lectures, one file each: `XConfig`, `XConfig.tiny()`, `X`. No model imports a model."""
