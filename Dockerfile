# medhelm as a container, which writes into /results alone and does not run as root: docs/install.md.
FROM python:3.13-slim AS build
COPY . /source
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /source

FROM python:3.13-slim
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir /wheels/*.whl && rm -r /wheels && mkdir -m 1777 /results
ENV HOME=/results
WORKDIR /results
USER 1000
ENTRYPOINT ["medhelm"]
CMD ["run"]
