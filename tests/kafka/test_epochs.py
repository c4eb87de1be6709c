"""Which leader's epoch goes with a position, by the few records whose epochs were asked for."""

from confluent_kafka import KafkaError

from scheduler.kafka.epochs import UNKNOWN, Epochs
from scheduler.kafka.errors import cut_to


def test_a_start_keeps_what_it_was_given():
    assert Epochs(10, 3).before(10) == 3
    assert Epochs(10, UNKNOWN).before(10) == UNKNOWN


def test_of_what_was_not_read_nothing_is_known():
    epochs = Epochs(10, 3)
    assert epochs.before(9) == UNKNOWN
    assert epochs.before(11) == UNKNOWN  # a later leader's marker may lie there
    epochs.read(10, 3)
    assert epochs.before(11) == 3


def test_a_change_counts_from_the_last_record_that_was_asked_for():
    """Records 10 to 29 were read, some of epoch 3 and some of 5. The leader of 5 had all of them: no false alarm."""
    epochs = Epochs(10, 3)
    epochs.read(29, 5)
    assert [epochs.before(offset) for offset in (10, 11, 30)] == [3, 5, 5]
    epochs.read(39, 5)
    assert epochs.before(40) == 5


def test_what_is_read_again_changes_nothing():
    epochs = Epochs(10, 3)
    epochs.read(19, 3)
    epochs.read(29, 4)
    epochs.read(15, 3)
    assert [epochs.before(offset) for offset in (16, 20, 21, 30)] == [3, 3, 4, 4]


def test_a_broker_that_tells_no_epochs():
    epochs = Epochs(0, UNKNOWN)
    epochs.read(4, None)
    assert epochs.before(5) == UNKNOWN
    epochs.read(9, -1)
    assert epochs.before(10) == UNKNOWN


def test_many_elections_do_not_pile_up():
    epochs = Epochs(0, 0)
    for number in range(1, 100):
        epochs.read(number * 10, number)
    assert epochs.before(991) == 99
    assert epochs.before(5) == UNKNOWN
    assert len(epochs._known) <= 8


def test_where_a_log_was_cut_is_in_the_clients_words():
    told = (
        "Partition log truncation detected at offset 139 (leader epoch 1): broker end offset is 30 "
        "(offset leader epoch 0). Reset to INVALID.: Local: Partition log truncation detected (broker 1)"
    )
    assert cut_to(KafkaError(KafkaError._AUTO_OFFSET_RESET, told)) == 30
    beyond = "fetch failed due to requested offset not available on the broker: Broker: Offset out of range"
    assert cut_to(KafkaError(KafkaError._AUTO_OFFSET_RESET, beyond)) == -1
