"""`penstock init`: a commented configuration and a first workflow to start from."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.command import Command, Invocation

CONFIGURATION = """\
# Penstock's configuration. Every line that is commented out shows the default.
# The environment is stronger (PENSTOCK_STORE, PENSTOCK_RETENTION__FAILED_DAYS), flags are stronger still.

app: flow:app                     # module:object, where the workflows are

# home: .penstock                 # the folder for the store and outputs
# store: sqlite:///.penstock/penstock.db
#                                 # or postgresql://user:password@host/database
# queues: [default]               # what a worker serves; unless told, the queues of its workflows
# concurrency: 100                # jobs that each worker process runs at once
# lease: 30s                      # how soon a worker that fell silent is taken for dead
# grace: 30s                      # how long running steps may take to finish when a worker stops
# fair_share: 0                   # the part of claims that goes to the oldest job, whatever its priority
# delivery: embedded              # who runs jobs: embedded, a worker's own loop; prefect, its flow runs; or celery

# retention:                      # how long jobs that have ended are kept; never: for ever
#   completed_days: 30
#   failed_days: 90
#   audit_days: 365               # who did what

# limits:                         # the most at once
#   workflow:hello: 10
#   tenant:*: 50

# log:
#   level: info                   # debug, info, warning, error
#   format: plain                 # plain, json

# gemini:
#   api_key:                      # better in the environment or in .env: GEMINI_API_KEY
#                                 # an address that is named here is used in place of the local Gemini, too:
#   base_url: https://generativelanguage.googleapis.com
#   api_version: v1beta
#   vertex_project:               # for single calls on Vertex AI, together with vertex_location
#   vertex_location:
#   model: gemini-3.8-flash       # where a request names none
#   embedding_model: gemini-embedding-001
#   max_output_tokens: 65536      # what an answer is counted as, where a request does not say
#   prices:                       # a file of your own prices
#   tier: 1                       # 1, 2 or 3: the billing tier, which decides how much may be enqueued
#   enqueued_tokens: {}           # or by model: {gemini-3.8-flash: 3000000}
#   batch_jobs: 100               # unfinished batches at once
#   inline_rows: 100              # a batch of more rows, or more bytes, is sent as a file
#   inline_bytes: 4000000
#   count_sample: 0               # rows of each batch that Google is asked to count
#   connect_timeout: 10s
#   request_timeout: 60s
#   create_timeout: 2m
#   generate_timeout: 5m
#   chunk_timeout: 5m
#   transfer_timeout: 1h
#   attempts: 5                   # for what is free to repeat: uploads, polls, downloads
#   retry_base: 500ms
#   upload_parallel: 8
#   upload_chunk: 8388608
#   files_live_for: 40h           # a batch is begun only with files that live at least so long
#   listing_margin: 5m            # after so long a batch that was taken is sure to be in the list
#   poll_every: 15s
#   poll_at_most: 10m
#   overdue_after: 24h

# local_gemini:                   # a Gemini on this machine
#   use: auto                     # auto: where no key is set; always, never
#   backend: local                # local, openai:URL, script, script:FILE
#   idle: 10m                     # it ends by itself after so long without work

# openai:                         # a server that speaks OpenAI's protocol, for embeddings
#   api_key:                      # better in the environment or in .env: OPENAI_API_KEY
#   base_url: https://api.openai.com/v1
#                                 # or your own: http://127.0.0.1:11434/v1
#   embedding_model: text-embedding-3-small
#   timeout: 60s
#   at_once: 64                   # texts in one request

# pool:                           # processes that parse foreign files
#   workers: 2

# service:                        # what `penstock up` serves
#   host: 127.0.0.1               # any other address needs tokens: penstock tokens create
#   port: 8800
#   public_url:                   # behind a proxy: https://penstock.example.com
#   trusted_proxies:              # their addresses: who is told to have asked is believed from them alone
#   queue_limit: 100000           # jobs that wait; with more, submits are answered 429
#   body_limit: 4194304           # bytes of a request
#   upload_limit: 1073741824      # bytes of an uploaded file
#   session: 12h                  # how long a browser stays logged in
#   logins_a_minute: 10           # from one address
#   drain_wait: 0s                # when it stops: how long it still answers, and says that it is not ready

# webhooks: {}                    # addresses that are told of events, signed with a secret:
#                                 #   name: {url: https://example.com/hook, secret: at least 16 characters}

# otel:                           # traces, by OTLP over HTTP
#   endpoint:                     # http://localhost:4318
#   service_name: penstock

# pages:                          # the pages pipeline
#   roots: ["."]                  # runs that are started over HTTP may use these folders; {tenant} is the tenant's name

# documents:                      # the documents pipeline
#   model:                        # who reads what does not carry its own data; gemini.model unless told
#   largest_mb: 14                # of one document
#   most_pages: 50
#   max_concurrent_tasks: 10      # documents of one batch that are worked on at once
#   review_hours: 24              # until a review is due
#   claim: 30m                    # how long a claim on a review holds unless it is renewed
#   reviewers: []                 # to whom reviews are assigned
#   sla_p95: 30s                  # what is promised: nineteen in twenty take no longer,
#   sla_per_hour: 4500            # so many an hour while more wait,
#   sla_error_rate: 0.01          # no larger part fails,
#   sla_depth: 500                # no more reviews are open,
#   sla_breach_rate: 0.001        # no larger part of them is late

# ingestion:                      # knowledge bases
#   batch: 10                     # documents of one tick
#   group: 64                     # chunks between two commits
#   roots: [.]                    # folders that may be named over HTTP
#   largest_mb: 200               # of one document
#   allow_private_addresses: false
#                                 # whether websites may lie on private addresses
#   user_agent:                   # what websites are told about who asks
#   search_memory_mb: 256         # of vectors that a process keeps for searching

# prefect:                        # with delivery: prefect
#   schedule_minutes: 10          # how often Prefect's schedule looks for work that nobody told of
#   runs: 10                      # flow runs that one worker runs at once
#   pages: []                     # files of runs of pages that Prefect starts, each by its own schedule

# celery:                         # with delivery: celery
#   broker_url:                   # redis://localhost:6379/0, amqp://user:password@host//
#   result_backend:               # where Celery keeps what tasks answer; nowhere unless told
#   processes: 4                  # of a worker
#   at_once: 20                   # jobs that each of them advances at once
#   soft_limit: 270s              # a step that takes longer is cancelled
#   hard_limit: 300s              # one that blocks its process for longer ends it
#   sweep_every: 5s               # how often work is looked for that nobody told of
#   beat: true                    # whether a worker has hints sent by the clock
"""

FLOW = '''\
"""A first workflow. Try it:

    penstock jobs submit hello --payload '"world"' --wait

Or start the service, which has a dashboard and runs the jobs:

    penstock up
"""

from penstock import Context, Penstock, Workflow

hello = Workflow("hello")


@hello.step
async def greet(name: str, ctx: Context) -> str:
    return f"Hello, {name}!"


app = Penstock(workflows=[hello])
'''

FILES = {"penstock.yaml": CONFIGURATION, "flow.py": FLOW}


@click.command(cls=Command)
@click.pass_obj
def init(call: Invocation) -> None:
    """Write a first configuration and workflow.

    penstock.yaml and flow.py, each unless it exists.
    """
    from penstock.engine.errors import StoreReadOnly

    written, kept = [], []
    for name, text in FILES.items():
        try:
            with Path(name).open("x", encoding="utf-8") as file:
                file.write(text)
            written.append(name)
        except FileExistsError:
            kept.append(name)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise StoreReadOnly(f"{Path.cwd() / name} cannot be written: {reason}") from error
    call.out.data({"written": written, "kept": kept})
    for name in kept:
        call.out.tell(f"{name} exists and was left alone.")
    for name in written:
        call.out.tell(f"Wrote {name}.")
    if "flow.py" in written or Path("flow.py").read_text(encoding="utf-8", errors="replace") == FLOW:
        call.out.tell("""Now try: penstock jobs submit hello --payload '"world"' --wait""")
        call.out.tell("Or start the service, with its dashboard and a worker: penstock up")
    else:
        call.out.tell("Start the service, with its dashboard and a worker: penstock up")
