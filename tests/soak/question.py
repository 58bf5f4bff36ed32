"""What servers ask and clients answer, and whose each is: every text of it is a subject, `OWNER/PART`, which names the call and
the part of its work that wants to know. Knows nothing of eras and transports."""

ABILITIES = {"elicit": "elicitation", "sample": "sampling", "roots": "roots"}
KINDS = {"elicitation/create": "elicit", "sampling/createMessage": "sample", "roots/list": "roots"}
QUESTIONS = {
    "elicit": ("elicitation/create", lambda subject: {"message": subject, "requestedSchema": {"type": "object", "properties": {"owner": {"type": "string"}}}}),
    "sample": ("sampling/createMessage", lambda subject: {"messages": [{"role": "user", "content": {"type": "text", "text": subject}}], "maxTokens": 9}),
    "roots": ("roots/list", lambda subject: {"_meta": {"soak/owner": subject}}),
}
SUBJECTS = {
    "elicit": lambda params: params["message"],
    "sample": lambda params: params["messages"][0]["content"]["text"],
    "roots": lambda params: params["_meta"]["soak/owner"],
}
ANSWERS = {
    "elicit": lambda subject: {"action": "accept", "content": {"owner": subject}},
    "sample": lambda subject: {"role": "assistant", "model": "soak", "content": {"type": "text", "text": subject}},
    "roots": lambda subject: {"roots": [{"uri": f"file:///{subject}"}]},
}
FOUND = {
    "elicit": lambda result: result["content"]["owner"],
    "sample": lambda result: result["content"]["text"],
    "roots": lambda result: result["roots"][0]["uri"].removeprefix("file:///"),
}


def question(kind, owner, part):
    """The method and the parameters."""
    method, params = QUESTIONS[kind]
    return method, params(f"{owner}/{part}")


def subject(method, params):
    """What a question is about."""
    return SUBJECTS[KINDS[method]](params)


def owner(subject):
    return subject.rsplit("/", 1)[0]


def answer(method, subject):
    return ANSWERS[KINDS[method]](subject)


def found(kind, result):
    """What an answer is about; `None` for a dialog that was closed or declined."""
    if kind == "elicit" and result["action"] != "accept":
        return None
    return FOUND[kind](result)
