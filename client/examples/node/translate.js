// Translates its arguments in one call, then once more as a stream.
import { fileURLToPath } from "node:url";
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";

const protos = fileURLToPath(new URL("../../proto", import.meta.url));
const definition = loader.loadSync("xuanzang/translation/v1/translation.proto", { includeDirs: [protos] });
const { TranslationService } = grpc.loadPackageDefinition(definition).xuanzang.translation.v1;

const [address, ...contents] = process.argv.slice(2);
if (contents.length === 0) {
  console.error("usage: node translate.js HOST:PORT TEXT...");
  process.exit(2);
}
const client = new TranslationService(address, grpc.credentials.createInsecure());

function fail(error) {
  console.error(`${grpc.status[error.code] ?? error.code}: ${error.details || error.message}`);
  process.exitCode = 1;
  client.close();
}

client.translateText({ contents }, { deadline: Date.now() + 60_000 }, (error, response) => {
  if (error) return fail(error);
  for (const { hypotheses } of response.translations) console.log(hypotheses[0].text);
  stream();
});

function stream() {
  // Answers come as they finish, so each carries the id that its text was sent with.
  const call = client.streamTranslateText({ deadline: Date.now() + 60_000 });
  call.on("data", ({ id, translation, error }) =>
    console.log(`${id}\t${error ? error.message : translation.hypotheses[0].text}`),
  );
  call.on("error", fail);
  call.on("end", () => client.close());
  contents.forEach((content, index) => call.write({ id: String(index), content }));
  call.end();
}
