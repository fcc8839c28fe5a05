"""Questions of access: asked once for some seconds, never remembered without end, never guessed."""

import pytest

from tidegate.core.admission import AccessQuestion
from tidegate.shell.admission.access import TTL_SECONDS, Access, Unanswered
from tidegate.shell.admission.wire import User
from tidegate.shell.api_server import NoAnswer

ANN = User("ann", groups=("dev",))
SECRET = AccessQuestion("get", "secrets", "chat", "hub")
PODS = AccessQuestion("create", "pods", "chat")


class Api:
    """Answers SubjectAccessReviews."""

    def __init__(self, answer=lambda spec: (201, {"status": {"allowed": True}})):
        self.answer = answer
        self.asked = []

    async def call(self, method, path, *, body, **options):
        assert (method, path) == ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews")
        self.asked.append(body["spec"])
        return self.answer(body["spec"])


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


async def test_the_question_is_about_the_user_as_the_api_server_knows_them():
    api = Api()
    user = User("ann", "u1", ("dev", "ops"), (("scopes", ("read",)),))

    assert await Access(api).refused(user, [SECRET]) == ()
    assert api.asked == [
        {
            "user": "ann",
            "uid": "u1",
            "groups": ["dev", "ops"],
            "extra": {"scopes": ["read"]},
            "resourceAttributes": {
                "verb": "get",
                "group": "",
                "resource": "secrets",
                "namespace": "chat",
                "name": "hub",
            },
        }
    ]


async def test_what_is_not_allowed_or_is_denied_is_refused():
    answers = {"secrets": {"allowed": True, "denied": True}, "pods": {"allowed": False}}
    api = Api(lambda spec: (201, {"status": answers[spec["resourceAttributes"]["resource"]]}))

    assert await Access(api).refused(ANN, [SECRET, PODS]) == (SECRET, PODS)


async def test_an_answer_holds_for_seconds_for_that_user_and_question_alone():
    api, clock = Api(), Clock()
    access = Access(api, clock)
    for _ in range(3):
        await access.refused(ANN, [SECRET])
    assert len(api.asked) == 1

    await access.refused(User("ann", groups=("dev", "admin")), [SECRET])
    await access.refused(ANN, [PODS])
    assert len(api.asked) == 3

    clock.now += TTL_SECONDS
    await access.refused(ANN, [SECRET])
    assert len(api.asked) == 4


async def test_no_more_answers_are_kept_than_there_is_room_for():
    api = Api()
    access = Access(api, most=10)
    for number in range(100):
        await access.refused(User(f"user-{number}"), [SECRET, PODS])

    assert len(access) == 10


@pytest.mark.parametrize(
    "answer",
    [
        (500, {"message": "etcd is away"}),
        (403, {"message": "forbidden"}),
        (201, {"status": None}),
        (201, "no document"),
    ],
)
async def test_who_cannot_be_asked_about_is_not_let_in_and_asked_about_again(answer):
    api = Api(lambda spec: answer)
    access = Access(api)

    for _ in range(2):
        with pytest.raises(Unanswered, match="whether ann may get secrets could not be asked"):
            await access.refused(ANN, [SECRET])
    assert len(api.asked) == 2


async def test_no_answer_is_no_permission():
    def away(spec):
        raise NoAnswer("TimeoutError")

    with pytest.raises(Unanswered, match="TimeoutError"):
        await Access(Api(away)).refused(ANN, [SECRET])
