from mirada.config import Config as Config  # moved; removed once all imports follow
