"""What the codec raises, by what the caller must do.

    Refused              quarantine the record, or tell its author; trying again is of no use
    RegistryUnavailable  hold the partition and try again later; nothing is wrong with the record

Nothing else leaves a decoder, whatever the bytes.
"""

from scheduler.core.validation import FieldError, Refused


class RegistryUnavailable(Exception):
    """The schema registry can't be asked about an id that is not known yet. The text names the id and the cause."""


__all__ = ["FieldError", "Refused", "RegistryUnavailable"]
