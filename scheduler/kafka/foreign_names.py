"""Names of ours as other tools take them."""

import re


def kubernetes_name(name: str) -> str:
    """Return a name for a resource of Kubernetes: small letters, digits, dots and dashes."""
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.")


def terraform_name(name: str) -> str:
    """Return an identifier of Terraform, which begins with a letter or an underscore."""
    return re.sub(r"[^A-Za-z0-9_]", "_", name if name[:1].isalpha() else "_" + name)
