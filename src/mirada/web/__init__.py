"""The web app and the HTTP API: `mirada serve`."""
