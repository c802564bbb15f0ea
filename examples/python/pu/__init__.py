"""pu: maximum likelihood in latent Gaussian models without matrix inversion."""

from ._errors import Error, PuWarning
from ._flat import Handle
