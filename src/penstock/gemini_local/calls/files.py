"""The Files API, call by call."""

from __future__ import annotations

from starlette.responses import Response

from penstock.gemini_local.calls.call import Call, error_reply, reply
from penstock.gemini_local.downloads import FileReply
from penstock.gemini_local.errors import ApiError, bad_request
from penstock.gemini_local.guards import own_address
from penstock.gemini_local.paging import decode_token, page_size
from penstock.gemini_local.uploads import GRANULARITY
from penstock.gemini_local.wire import is_number

STATUS = "X-Goog-Upload-Status"
RECEIVED = "X-Goog-Upload-Size-Received"


async def upload_start(call: Call) -> Response:
    headers = call.request.headers
    if headers.get("x-goog-upload-protocol", "").lower() != "resumable":
        raise bad_request("The local Gemini takes files by resumable uploads: X-Goog-Upload-Protocol: resumable.")
    length = headers.get("x-goog-upload-header-content-length", "")
    upload = call.services.uploads.start(
        call.body,
        length=int(length) if is_number(length) else None,
        mime=headers.get("x-goog-upload-header-content-type"),
    )
    address = own_address(headers, call.request.url.scheme)
    url = f"{address}/upload/{call.match.version}/files?upload_id={upload.id}&upload_protocol=resumable"
    return Response(
        headers={
            "X-Goog-Upload-URL": url,
            "X-Goog-Upload-Control-URL": url,
            "X-Goog-Upload-Chunk-Granularity": str(GRANULARITY),
            STATUS: "active",
        }
    )


async def upload_chunk(call: Call) -> Response:
    """The status is in the headers of every answer but one: that of a fault."""
    uploads = call.services.uploads
    broken = call.fault("chunk_without_status")
    if broken is not None and not broken.option("stored"):
        return Response(status_code=int(broken.option("code")))
    try:
        upload = uploads.get(call.match.id)
    except ApiError as error:
        return _with_status(error_reply(error), "cancelled")
    if upload.file is not None:
        return _with_status(reply({"file": call.services.files.view(await uploads.finish(upload))}), "final")
    offset = call.request.headers.get("x-goog-upload-offset", "0")
    try:
        if not is_number(offset):
            raise bad_request("X-Goog-Upload-Offset is not a number.")
        received = await uploads.write(upload, int(offset), call.request.stream())
        call.entry.size = received - int(offset)
        if call.match.verb != "finalize":
            answer = Response(headers={STATUS: "active", RECEIVED: str(received)})
        else:
            file = await uploads.finish(upload)
            for fault in file.faults:
                call.entry.add_fault(fault.kind)
            answer = _with_status(reply({"file": call.services.files.view(file)}), "final")
    except ApiError as error:
        answer = _with_status(error_reply(error), "active")
    if broken is not None:
        del answer.headers[STATUS]
        answer.status_code = int(broken.option("code"))
    return answer


async def upload_query(call: Call) -> Response:
    upload = call.services.uploads.get(call.match.id)
    headers = {
        STATUS: "active" if upload.file is None else "final",
        RECEIVED: str(call.services.uploads.received(upload)),
        "X-Goog-Upload-Chunk-Granularity": str(GRANULARITY),
    }
    if upload.file is None:
        return Response(headers=headers)
    return reply({"file": call.services.files.view(call.services.files.get(upload.file))}, headers=headers)


async def upload_cancel(call: Call) -> Response:
    call.services.uploads.cancel(call.services.uploads.get(call.match.id))
    return Response(headers={STATUS: "cancelled"})


async def file_get(call: Call) -> Response:
    name = f"files/{call.match.id}"
    call.services.files.check_id(name, "GetFileRequest")
    return reply(call.services.files.view(call.services.files.get(name)))


async def file_list(call: Call) -> Response:
    size = page_size(call.query.get("pageSize") or call.query.get("page_size"), default=10, most=100)
    before = decode_token(call.query.get("pageToken") or call.query.get("page_token"))
    return reply(call.services.files.page(before, size))


async def file_delete(call: Call) -> Response:
    name = f"files/{call.match.id}"
    call.services.files.check_id(name, "DeleteFileRequest")
    call.services.files.delete(name)
    return reply({})


async def download(call: Call) -> Response:
    file = call.services.files.get(f"files/{call.match.id}")
    if file.source != "GENERATED":
        raise bad_request(f"{file.name} was uploaded: only files made by the service can be downloaded.")
    half = call.fault("half_download")
    return FileReply(
        call.services.files.path(file),
        file.mime,
        file.sha256[:32],
        call.request.headers.get("range"),
        None if half is None else float(half.option("fraction")),
    )


def _with_status(answer: Response, status: str) -> Response:
    answer.headers[STATUS] = status
    return answer
