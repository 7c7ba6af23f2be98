import java.net.URI;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

/** Makes one call with one client: Call CLIENT METHOD URL. */
public final class Call {
    private static final String BODY = "{\"amount\":1}";

    interface Api {
        @feign.RequestLine("POST /")
        @feign.Headers("Content-Type: application/json")
        @feign.Body("%7B\"amount\":1%7D")
        void post();

        @feign.RequestLine("GET /")
        void get();
    }

    public static void main(String[] args) throws Exception {
        String method = args[1];
        String url = args[2];
        boolean post = method.equals("POST");
        switch (args[0]) {
            case "HttpClient" -> {
                var body = post ? HttpRequest.BodyPublishers.ofString(BODY) : HttpRequest.BodyPublishers.noBody();
                var request = HttpRequest.newBuilder(URI.create(url)).method(method, body).build();
                var client = java.net.http.HttpClient.newHttpClient();
                System.out.println(client.send(request, HttpResponse.BodyHandlers.ofString()).statusCode());
            }
            case "Apache-HttpClient" -> {
                var request = new org.apache.hc.client5.http.classic.methods.HttpUriRequestBase(method, URI.create(url));
                if (post) {
                    request.setEntity(new org.apache.hc.core5.http.io.entity.StringEntity(BODY));
                }
                try (var client = org.apache.hc.client5.http.impl.classic.HttpClients.createDefault()) {
                    int status = client.execute(request, answer -> answer.getCode());
                    System.out.println(status);
                }
            }
            case "OkHttp" -> {
                var body = post ? okhttp3.RequestBody.create(BODY.getBytes()) : null;
                var request = new okhttp3.Request.Builder().url(url).method(method, body).build();
                try (var answer = new okhttp3.OkHttpClient().newCall(request).execute()) {
                    System.out.println(answer.code());
                }
            }
            case "Feign" -> {
                Api api = feign.Feign.builder().target(Api.class, url);
                if (post) {
                    api.post();
                } else {
                    api.get();
                }
            }
            default -> throw new IllegalArgumentException("no client " + args[0]);
        }
        System.exit(0);
    }
}
