// Translates one text and writes each part of the translation as soon as it is final.
import { fileURLToPath } from "node:url";
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";

const protos = fileURLToPath(new URL("../../proto", import.meta.url));
const definition = loader.loadSync("xuanzang/translation/v1/translation.proto", {
  includeDirs: [protos],
  defaults: true, // empty fields are empty values, not undefined
});
const { TranslationService } = grpc.loadPackageDefinition(definition).xuanzang.translation.v1;

const [address, content] = process.argv.slice(2);
if (content === undefined) {
  console.error("usage: node watch.js HOST:PORT TEXT");
  process.exit(2);
}
const client = new TranslationService(address, grpc.credentials.createInsecure());

const request = { content, settings: { tokenDetails: true } };
const call = client.translateTextProgressively(request, { deadline: Date.now() + 60_000 });
call.on("data", ({ textDelta, translation }) => {
  process.stdout.write(textDelta);
  // The last message has the whole translation, here with what each token was translated from.
  if (translation) {
    process.stdout.write("\n");
    // The server counts characters, JavaScript the halves of some of them.
    const source = Array.from(content);
    for (const { text, sourceStart, sourceEnd } of translation.hypotheses[0].tokens)
      console.log(`${text}\t${source.slice(sourceStart, sourceEnd).join("")}`);
  }
});
call.on("error", (error) => {
  console.error(`${grpc.status[error.code] ?? error.code}: ${error.details || error.message}`);
  process.exitCode = 1;
  client.close();
});
call.on("end", () => client.close());
