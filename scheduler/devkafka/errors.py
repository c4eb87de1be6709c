"""What can keep a broker from running here. Each message is one sentence or two and says what to do.

DevKafkaError
├── NoJavaError         no Java, or one too old
├── NoJarsError         Kafka's jars can't be had: no network, or a folder without them
├── NoContainerError    a container was asked for, and no engine runs one
├── PortTakenError      another program listens there
├── LittleDiskError     less than a gibibyte is free
├── DirectoryError      the data directory is another run's, or somebody else's
└── BrokerFailedError   the broker ended, or did not answer in time
"""


class DevKafkaError(Exception):
    """A broker for development could not be provided; the message says what to do."""


class NoJavaError(DevKafkaError):
    """No Java of version 17 or later was found."""


class NoJarsError(DevKafkaError):
    """Kafka's jars could neither be found nor be fetched."""


class NoContainerError(DevKafkaError):
    """No container engine answers on this machine, or it could not start the image."""


class PortTakenError(DevKafkaError):
    """Another program listens on a port that was asked for."""


class LittleDiskError(DevKafkaError):
    """The disk under the data directory is nearly full."""


class DirectoryError(DevKafkaError):
    """The data directory is used by another run, or holds something that is not ours."""


class BrokerFailedError(DevKafkaError):
    """A broker process ended by itself or did not answer in time; the message names its log file."""
