"""What a role cannot say is said by a policy that comes with it."""

from pathlib import Path

import pytest

from tests.chart.helm import NAMESPACE, Helm, Values, only
from tests.chart.permissions import granted
from tests.chart.test_permissions import CONFIGURATIONS


@pytest.mark.parametrize("values", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
async def test_who_may_patch_pods_by_its_role_is_held_to_its_own(values: Values, tmp_path: Path) -> None:
    """The webhook, by a policy that is there whenever the permission is, and that goes with it."""
    objects = await Helm("helm4", tmp_path).render(values)
    patches = [
        grant for grant in granted(objects, "ebbtide-webhook") if (grant.verb, grant.resource) == ("patch", "pods")
    ]
    kinds = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    found = [each for each in objects if each["kind"] in kinds and each["metadata"]["name"] == "ebbtide-webhook"]
    assert [each["kind"] for each in found] == list(kinds) * len(patches)
    for policy, binding in [found] if patches else []:
        account = only(objects, "Deployment", "ebbtide-webhook")["spec"]["template"]["spec"]["serviceAccountName"]
        (condition,) = policy["spec"]["matchConditions"]
        assert condition["expression"].endswith(f'"system:serviceaccount:{NAMESPACE}:{account}"')
        assert policy["spec"]["failurePolicy"] == "Fail"
        assert binding["spec"] == {"policyName": "ebbtide-webhook", "validationActions": ["Deny"]}


@pytest.mark.parametrize("values", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
async def test_who_may_patch_webhook_configurations_by_its_role_is_held_to_their_ca(
    values: Values, tmp_path: Path
) -> None:
    """The reconciler, and by no exception: for every operation, in every version of the API."""
    objects = await Helm("helm4", tmp_path).render(values)
    kind = "mutatingwebhookconfigurations"
    held = {grant.verb for grant in granted(objects, "ebbtide-reconciler") if grant.resource == kind} - {
        "list",
        "watch",
    }
    assert held <= {"patch"}
    kinds = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    found = [each for each in objects if each["kind"] in kinds and each["metadata"]["name"] == "ebbtide-reconciler"]
    assert [each["kind"] for each in found] == list(kinds) * len(held)
    for policy, binding in [found] if held else []:
        account = only(objects, "Deployment", "ebbtide-reconciler")["spec"]["template"]["spec"]["serviceAccountName"]
        (condition,) = policy["spec"]["matchConditions"]
        assert condition["expression"].endswith(f'"system:serviceaccount:{NAMESPACE}:{account}"')
        assert policy["spec"]["failurePolicy"] == "Fail"
        (rule,) = policy["spec"]["matchConstraints"]["resourceRules"]
        assert rule == {
            "apiGroups": ["admissionregistration.k8s.io"],
            "apiVersions": ["*"],
            "operations": ["CREATE", "UPDATE", "DELETE"],
            "resources": [kind],
        }
        assert binding["spec"] == {"policyName": "ebbtide-reconciler", "validationActions": ["Deny"]}


async def test_who_is_told_of_what_the_webhook_missed_is_who_is_sent_to_it(tmp_path: Path) -> None:
    values = {"admissionPolicy": {"enabled": True}, "webhook": {"excludedNamespaces": ["tools"]}}
    objects = await Helm("helm4", tmp_path).render(values)
    told = only(objects, "ValidatingAdmissionPolicyBinding", "ebbtide-exclusion")["spec"]["matchResources"]
    sent = only(objects, "MutatingWebhookConfiguration", "ebbtide-pods")["webhooks"][0]
    assert told["namespaceSelector"] == sent["namespaceSelector"]
