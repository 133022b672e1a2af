"""Case folders on disk: a small lake of their own, `case.yaml`, and the manifest that seals both."""
