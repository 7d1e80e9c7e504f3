"""How Chamber's objects in a cluster are marked: one place for every label, annotation, gate and finalizer."""

from dataclasses import dataclass

DOMAIN = "chamber.internal"


@dataclass(frozen=True, slots=True)
class DomainNames:
    """The names under one domain."""

    domain: str = DOMAIN

    def _of(self, word: str) -> str:
        return f"{self.domain}/{word}"

    def owns(self, key: str) -> bool:
        """Return whether a label's or annotation's key is of this domain."""
        return key.startswith(f"{self.domain}/")

    # Labels

    @property
    def cluster(self) -> str:
        """Return the label with the cluster's name at the server; whatever Chamber made bears it."""
        return self._of("cluster")

    @property
    def workload(self) -> str:
        """Return the label with the workload's id."""
        return self._of("workload")

    @property
    def attempt(self) -> str:
        """Return the label with the attempt's id."""
        return self._of("attempt")

    @property
    def number(self) -> str:
        """Return the label with the attempt's number."""
        return self._of("number")

    @property
    def team(self) -> str:
        """Return the label with the team's slug."""
        return self._of("team")

    @property
    def pod(self) -> str:
        """Return the label with a pod's index in its workload; a pod gets it with its node."""
        return self._of("pod")

    @property
    def adopt(self) -> str:
        """Return the label by which a user asks to have a Job adopted."""
        return self._of("adopt")

    @property
    def priority(self) -> str:
        """Return the label with the priority that a Job is to have."""
        return self._of("priority")

    @property
    def binding(self) -> str:
        """Return the label of a namespace with the id of the binding that it was made for, or handed over to."""
        return self._of("binding")

    # Annotations

    @property
    def owner(self) -> str:
        """Return the annotation in which a Job names its owner, who may steer it at the server too."""
        return self._of("owner")

    @property
    def title(self) -> str:
        """Return the annotation with what its people call the workload."""
        return self._of("title")

    @property
    def slug(self) -> str:
        """Return the annotation with the workload's name at the server."""
        return self._of("name")

    @property
    def retry(self) -> str:
        """Return the annotation of an adopted Job that a user changes to have it tried anew."""
        return self._of("retry")

    @property
    def tolerated(self) -> str:
        """Return the annotation of an adopted Job with the taints that Chamber had its pods tolerate."""
        return self._of("tolerated")

    @property
    def plan(self) -> str:
        """Return the annotation that says which pods a Job stands for and where each goes."""
        return self._of("plan")

    @property
    def mark(self) -> str:
        """Return the annotation that proves that the agent made the Job."""
        return self._of("mark")

    @property
    def verdict(self) -> str:
        """Return the annotation that says why an attempt ended badly."""
        return self._of("verdict")

    @property
    def stop(self) -> str:
        """Return the annotation that says since when a Job is being stopped."""
        return self._of("stop")

    @property
    def checkpoint(self) -> str:
        """Return the annotation of an adopted Job with its last checkpoint, written as in a note."""
        return self._of("checkpoint")

    @property
    def progress(self) -> str:
        """Return the annotation of an adopted Job with how far it is: a part of 1."""
        return self._of("progress")

    @property
    def notice(self) -> str:
        """Return the annotation that tells a pod before its signal why it is stopped, and until when it may go on."""
        return self._of("notice")

    @property
    def removed(self) -> str:
        """Return the annotation with the pods that were taken from a running Job."""
        return self._of("removed")

    @property
    def let_go(self) -> str:
        """Return the annotation of an adopted Job with the pods that were let go first, as the ends of their uids."""
        return self._of("let-go")

    @property
    def begun(self) -> str:
        """Return the annotation of an adopted Job that says when Chamber unsuspended it."""
        return self._of("begun-at")

    @property
    def devices(self) -> str:
        """Return the annotation with the indexes of a pod's planned devices."""
        return self._of("devices")

    @property
    def epoch(self) -> str:
        """Return the annotation of the agent's lease with how far it has seen the server's database."""
        return self._of("epoch")

    @property
    def drain_elastic(self) -> str:
        """Return the annotation of a node that says from when elastic work leaves it."""
        return self._of("drain-elastic-at")

    @property
    def drain_reserved(self) -> str:
        """Return the annotation of a node that says until when reserved work may stay."""
        return self._of("drain-reserved-at")

    # What holds things back

    @property
    def gate(self) -> str:
        """Return the scheduling gate of pods that wait for their fellows and their node."""
        return self._of("placed")

    @property
    def report(self) -> str:
        """Return the finalizer that keeps a Job until its last report was acknowledged."""
        return self._of("report")
