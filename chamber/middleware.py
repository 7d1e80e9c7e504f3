"""Static files without a second server, addresses without NUL, and refusals as answers a person can read."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import render
from whitenoise.middleware import WhiteNoiseMiddleware

from chamber.errors import Refusal
from chamber.http import toast, wants_fragment


class StaticFilesMiddleware(WhiteNoiseMiddleware):
    """WhiteNoise, but with whole files: under ASGI Django would read its stream in one go anyway, with a warning."""

    @staticmethod
    def serve(static_file: object, request: HttpRequest) -> HttpResponse:
        """Return the file as a plain response."""
        streamed = WhiteNoiseMiddleware.serve(static_file, request)
        content = b"".join(streamed.streaming_content)
        streamed.close()
        response = HttpResponse(content, status=streamed.status_code, headers=dict(streamed.items()))
        if content:
            # The file may have been replaced since its length was noted, by an upgrade under a running server.
            response["Content-Length"] = str(len(content))
        return response


class NoNulMiddleware:
    """Leave NUL out of what an address asks for: it means nothing there, and PostgreSQL takes no text with one."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Pass the request on."""
        request.META["QUERY_STRING"] = request.META.get("QUERY_STRING", "").replace("%00", "")
        return self.get_response(request)


class RefusalMiddleware:
    """Answer a `Refusal` raised in a page's view: a toast where a fragment was asked for, else a page."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Pass the request on; say in words where a page's address takes no such request."""
        response = self.get_response(request)
        for_people = "text/html" in request.headers.get("Accept", "")
        if not isinstance(response, HttpResponseNotAllowed) or not for_people:
            return response
        refusal = Refusal("This address only takes what a form sends; open the page that the form is on.")
        refusal.status = response.status_code
        page = render(request, "errors/refusal.html", {"refusal": refusal}, status=refusal.status)
        page["Allow"] = response["Allow"]
        return page

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Render the refusal with its own status."""
        if not isinstance(exception, Refusal):
            return None
        if wants_fragment(request):
            return toast(
                HttpResponse(exception.message, status=exception.status), exception.message, level="error"
            )
        return render(request, "errors/refusal.html", {"refusal": exception}, status=exception.status)
