"""Explanations of the reasons about admission."""

from tidegate.api.explanations.explanation import Explanation
from tidegate.api.reasons import Reason

EXPLANATIONS: dict[Reason, Explanation] = {
    Reason.SPEC_TOO_LARGE: Explanation(
        "The resource is larger, or nested deeper, than Tidegate reads.",
        "Put a large config.json into a ConfigMap that `model.configRef` names; remove the rest.",
    ),
    Reason.LOOKALIKE_NAME: Explanation(
        "A name has letters that look like others: of two scripts in one word, or of full width.",
        "Write the name with the letters that clients will type.",
    ),
    Reason.IMAGE_NOT_ALLOWED: Explanation(
        "The operator's `admission.registries` setting does not list where the image comes from.",
        "Use an image of a listed registry, or ask for the registry to be added.",
    ),
    Reason.IMAGE_NOT_PINNED: Explanation(
        "The operator's `admission.digestsOnly` setting asks for images by digest.",
        "Add the image's digest: `name:tag@sha256:...`.",
    ),
    Reason.PRIORITY_RESERVED: Explanation(
        "Priority classes that begin with `system-` are for the cluster's own pods.",
        "Use a priority class of your own.",
    ),
    Reason.LABEL_COLLISION: Explanation(
        "The pods would carry all labels by which another object selects its own pods.",
        "Remove or change the label of `podTemplate` that the message names.",
    ),
    Reason.POD_NOT_RESTRICTED: Explanation(
        "A pod as rendered breaks a rule of Kubernetes' restricted Pod Security Standard.",
        "Report it: no field of the resource should be able to do this.",
    ),
    Reason.MODE_SWITCH_WHILE_ROLLING: Explanation(
        "`unified` was to become a pair, or the reverse, while another rollout runs.",
        "Wait until the rollout has ended, or apply the former spec first.",
    ),
    Reason.ACCESS_DENIED: Explanation(
        "Who writes the resource may not do what it would do for them: read a Secret, a ConfigMap "
        "or a claim that it names, or create pods in the namespace.",
        "Ask for that permission, or remove the reference.",
    ),
    Reason.NOT_CHECKED: Explanation(
        "Something was not known at admission, such as the nodes or a ConfigMap.",
        "Nothing: the operator checks it before it makes pods, and says so in `status`.",
    ),
    Reason.UPDATE_ROLLS_PODS: Explanation(
        "The update changes what shapes the pods, so all of them are replaced.",
        "Nothing, if that is meant; the message says how many and for how long capacity drops.",
    ),
    Reason.TRUSTS_OTHERS: Explanation(
        "An extra argument lets code of a model's repository, or clients, do more in the engine.",
        "Remove it where it is not needed; pin `model.revision` to a commit.",
    ),
    Reason.TOKEN_MISSING: Explanation(
        "The hub asks for a token for models of this organisation, and the resource has none.",
        "Set `spec.model.source.huggingFace.tokenSecretRef`.",
    ),
}
